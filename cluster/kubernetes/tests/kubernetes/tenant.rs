//! Objects that a tenant with the ClusterRole `edit` in one namespace can write there, and the part of them that Weir
//! trusts.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::AuthInfo;
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use weir_access::Rule;
use weir_cluster::{
    Apply, Desired, Destination, Directory, Host, Route, Routes, ServiceName, Snapshot, Split, Workload,
};
use weir_cluster_kubernetes::{Kubernetes, WatchScope};

use crate::api_server::{config, unless_there};
use crate::server;

/// Longest duration that Weir accepts.
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

/// Two teams: `victim` has a service, and `tenant` writes what it can in its own namespace.
struct Teams {
    admin: Client,
    tenant: Client,
    control: Kubernetes,
    gateway: Kubernetes,
    service: ServiceName,
    namespace: String,
}

impl Teams {
    /// Creates the service `name` of the first team, and the namespaces of both.
    async fn new(name: &str, victim: &str, tenant: &str) -> Self {
        let admin = server::client().await;
        server::namespace(&admin, victim).await;
        server::namespace(&admin, tenant).await;
        let teams = Self {
            tenant: editor(&admin, tenant).await,
            control: server::cluster().await,
            gateway: server::connect(admin.clone(), WatchScope::Gateway).await,
            service: ServiceName::new(victim, name).unwrap(),
            namespace: tenant.to_owned(),
            admin,
        };
        teams.serve(&teams.service).await;
        teams
    }

    /// Applies a service with one revision, like the controller.
    async fn serve(&self, service: &ServiceName) {
        let workload = workload(service);
        let split = Split::all(workload.revision.clone());
        let mut route = Route::new(service.clone(), Destination::Split(split));
        route.since = 1_700_000_000;
        route.hosts = hosts(service);
        let desired = Desired::new(service.clone(), vec![workload], Some(route));
        self.control.apply(desired.unwrap()).await.unwrap();
    }

    /// Returns the API of the tenant's own namespace, with the tenant's rights.
    fn own<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.tenant.clone(), &self.namespace)
    }

    /// Returns the name of a service of the tenant.
    fn named(&self, name: &str) -> ServiceName {
        ServiceName::new(&self.namespace, name).unwrap()
    }

    /// Writes a Service that claims these hosts for a service of the tenant, older than any other, and waits until
    /// gateways have read it.
    async fn claim(&self, service: &ServiceName, hosts: &[Host]) {
        let mut hosts: Vec<_> = hosts.iter().map(Host::to_string).collect();
        hosts.push(format!("{}.{}", service.name(), service.namespace()));
        let route = route(&hosts, service.revision(1).unwrap().as_str());
        let claim = routed(service.name(), service.name(), &route);
        create(&self.own::<Service>(), &claim).await.unwrap();
        self.until(|snapshot| snapshot.routes.of(service).is_some()).await;
    }

    /// Waits until the API server gives a new object a later creation time than the first team's service has, which is
    /// a whole second.
    async fn until_a_later_second(&self) {
        let theirs: Api<Service> = Api::namespaced(self.admin.clone(), self.service.namespace());
        let created = theirs.get(self.service.name()).await.unwrap().metadata.creation_timestamp;
        let probe = json!({ "metadata": { "name": "later" }, "spec": { "clusterIP": "None" } });
        let probe: Service = serde_json::from_value(probe).unwrap();
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let made = async || theirs.create(&dry_run, &probe).await.unwrap().metadata.creation_timestamp;
        server::until("a later second", async || made().await > created).await;
    }

    /// Waits for a state that gateways see.
    async fn until(&self, is_it: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let mut snapshots = self.gateway.watch();
        let seen = snapshots.wait_for(|snapshot| is_it(snapshot));
        let seen = tokio::time::timeout(server::DEADLINE, seen).await;
        Snapshot::clone(&seen.unwrap().unwrap())
    }
}

/// Returns a client with the rights of `edit` in this namespace alone.
async fn editor(admin: &Client, namespace: &str) -> Client {
    let user = format!("editor-of-{namespace}");
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "editor" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    }))
    .unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(admin.clone(), namespace);
    unless_there(bindings.create(&PostParams::default(), &binding).await);
    let mut config = config().await;
    config.auth_info = AuthInfo { impersonate: Some(user), ..config.auth_info };
    let client = Client::try_from(config).unwrap();
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let all = kube::api::ListParams::default();
    server::until("the role to be bound", async || services.list(&all).await.is_ok()).await;
    client
}

fn workload(service: &ServiceName) -> Workload {
    Workload::new(service.revision(1).unwrap(), server::template(), 1)
}

/// Returns the hosts that a controller gives to a service.
fn hosts(service: &ServiceName) -> Vec<Host> {
    let mut hosts = service.inside_hosts("cluster.local").unwrap();
    hosts.push(service.host("example.com").unwrap());
    hosts
}

/// Returns the service that gets the requests for a host.
fn holder<'a>(routes: &'a Routes, host: &Host) -> &'a ServiceName {
    &routes.holders()[host].route.service
}

/// Returns the annotation of a route that is older than all others.
fn route(hosts: &[String], revision: &str) -> Value {
    json!({
        "since": 1, "hosts": hosts, "model": null, "timeout": null, "batching": null, "mirror": null,
        "activationTimeout": { "secs": 55, "nanos": 0 }, "maxQueue": 4096,
        "destination": { "split": [{ "revision": revision, "share": 100 }] },
    })
}

/// Returns a Kubernetes Service of this name that claims to store the route of a service.
fn routed(name: &str, service: &str, route: &Value) -> Value {
    json!({
        "metadata": {
            "name": name,
            "labels": { "app.kubernetes.io/managed-by": "weir", "serving.kserve.io/inferenceservice": service },
            "annotations": { "weir.dev/route": route.to_string() },
        },
        "spec": { "type": "ExternalName", "externalName": "weir-gateway.weir-system.svc.cluster.local" },
    })
}

/// Returns the labels of an object of a revision.
fn labels_of_revision(service: &str, revision: &str) -> Value {
    json!({
        "app.kubernetes.io/managed-by": "weir",
        "serving.kserve.io/inferenceservice": service,
        "weir.dev/revision": revision,
    })
}

async fn create<K>(api: &Api<K>, object: &Value) -> Result<K, kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(object.clone()).unwrap();
    api.create(&PostParams::default(), &object).await
}

/// Asserts that the API server refuses a request without the right.
fn assert_forbidden<K: Debug>(answer: Result<K, kube::Error>) {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        other => panic!("not forbidden: {other:?}"),
    }
}

#[tokio::test]
async fn a_tenant_gets_no_host_and_no_path_of_another_namespace() {
    let teams = Teams::new("roll", "tenant-hosts-a", "tenant-hosts-b").await;
    let theirs = hosts(&teams.service);
    let claims = teams.named("roll");
    teams.claim(&claims, &theirs).await;
    let routes = teams.until(|_| true).await.routes;
    for host in &theirs {
        assert_eq!(holder(&routes, host), &teams.service, "{host}");
    }
    let own: Vec<_> = routes.of(&claims).unwrap().all_hosts().collect();
    assert_eq!(own, [&Host::parse("roll.tenant-hosts-b").unwrap()]);
    assert_eq!(claims.path_prefix(), "/serving/tenant-hosts-b/roll");
    let mut conflicts = routes.conflicts().into_iter();
    let reported = conflicts.find(|conflict| conflict.loser == teams.service);
    assert_eq!(reported, None, "the owner has no conflict");
}

#[tokio::test]
async fn a_host_that_two_names_make_stays_with_the_service_that_was_there_first() {
    let teams = Teams::new("roll", "age-tenant", "tenant").await;
    let host = teams.service.host("example.com").unwrap();
    let claims = teams.named("roll-age");
    assert_eq!(claims.host("example.com").unwrap(), host);
    teams.until_a_later_second().await;
    teams.claim(&claims, std::slice::from_ref(&host)).await;
    let routes = teams.until(|_| true).await.routes;
    assert_eq!(holder(&routes, &host), &teams.service);
    let conflicts = routes.conflicts().into_iter();
    let losers: Vec<_> = conflicts.filter(|conflict| conflict.host == host).map(|conflict| conflict.loser).collect();
    assert_eq!(losers, [claims]);
}

#[tokio::test]
async fn a_tenant_opens_its_own_service_alone() {
    let teams = Teams::new("roll", "tenant-access-a", "tenant-access-b").await;
    let own = teams.named("roll");
    let mut route = route(&["roll.tenant-access-b".to_owned()], own.revision(1).unwrap().as_str());
    route["access"] = json!([{ "anyone": true }, { "anyone": true, "services": ["*"] }, { "anyone": 1 }]);
    create(&teams.own::<Service>(), &routed("roll", "roll", &route)).await.unwrap();
    let routes = teams.until(|snapshot| snapshot.routes.of(&own).is_some()).await.routes;
    let rules = |service: &ServiceName| routes.of(service).unwrap().access.as_slice().to_vec();
    let anyone = Rule { anyone: true, ..Rule::default() };
    assert_eq!(rules(&own), [anyone], "a rule that names services counts nowhere");
    assert_eq!(rules(&teams.service), []);
}

#[tokio::test]
async fn a_route_leads_only_to_revisions_of_its_own_service() {
    let teams = Teams::new("roll", "tenant-revisions-a", "tenant-revisions-b").await;
    let own = teams.named("own");
    teams.serve(&own).await;
    teams.until(|snapshot| snapshot.routes.of(&own).is_some()).await;
    // A Kubernetes Service of another name does not store the service's route.
    let elsewhere = route(&["own.tenant-revisions-b".to_owned()], "own-predictor-00009");
    let elsewhere = routed("elsewhere", "own", &elsewhere);
    create(&teams.own::<Service>(), &elsewhere).await.unwrap();
    let foreign = route(&[], "roll-predictor-00001");
    create(&teams.own::<Service>(), &routed("stray", "stray", &foreign)).await.unwrap();
    teams.claim(&teams.named("last"), &[]).await;
    let snapshot = teams.until(|_| true).await;
    let routes = snapshot.routes.as_slice().iter();
    let mut routes = routes.filter(|route| route.service.namespace() == teams.namespace);
    let mut routes: Vec<_> = routes.by_ref().map(|route| &route.service).collect();
    routes.sort();
    assert_eq!(routes, [&teams.named("last"), &own]);
    let leads_to: Vec<_> = snapshot.routes.of(&own).unwrap().revisions().collect();
    assert_eq!(leads_to, [&own.revision(1).unwrap()]);
}

#[tokio::test]
async fn addresses_are_those_of_a_revisions_own_pods() {
    let teams = Teams::new("roll", "tenant-addresses-a", "tenant-addresses-b").await;
    let revision = teams.service.revision(1).unwrap();
    let before = teams
        .until(|snapshot| {
            let seen = snapshot.revision(&revision);
            seen.is_some_and(|revision| revision.ready().count() == 1)
        })
        .await;
    let before = before.revision(&revision).unwrap().clone();
    let slice = |namespace: &str, labels: Value, target: Value| {
        json!({
            "metadata": { "name": "forged", "namespace": namespace, "labels": labels },
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": ["10.9.9.9"], "conditions": { "ready": true, "serving": true }, "targetRef": target,
            }],
            "ports": [{ "name": "http", "port": 6443 }],
        })
    };
    let pod = |namespace: &str| json!({ "kind": "Pod", "name": "forged", "namespace": namespace });
    let labels = labels_of_revision("roll", revision.as_str());
    let in_own = slice(&teams.namespace, labels.clone(), pod(&teams.namespace));
    assert_forbidden(create(&teams.own::<EndpointSlice>(), &in_own).await);
    // Forged slices are ignored even if a tenant has been given that right.
    let with = |service: &str, by: &str| {
        let mut labels = labels.clone();
        labels["kubernetes.io/service-name"] = service.into();
        labels["endpointslice.kubernetes.io/managed-by"] = by.into();
        labels
    };
    let controller = "endpointslice-controller.k8s.io";
    let victim = teams.service.namespace();
    let forged = [
        slice(victim, labels.clone(), pod(victim)),
        slice(victim, with("other", controller), pod(victim)),
        slice(victim, with(revision.as_str(), "example.com"), pod(victim)),
        slice(victim, with(revision.as_str(), controller), pod("elsewhere")),
        slice(victim, with(revision.as_str(), controller), Value::Null),
    ];
    let slices: Api<EndpointSlice> = Api::namespaced(teams.admin.clone(), victim);
    for (number, mut slice) in (0..).zip(forged) {
        slice["metadata"]["name"] = format!("forged-{number}").into();
        create(&slices, &slice).await.unwrap();
    }
    teams.claim(&teams.named("last"), &[]).await;
    let after = teams.until(|_| true).await;
    let after = after.revision(&revision).unwrap();
    assert_eq!(after.replicas, before.replicas);
}

#[tokio::test]
async fn numbers_that_no_controller_writes_stop_no_other_service() {
    let teams = Teams::new("roll", "tenant-numbers-a", "tenant-numbers-b").await;
    let most = json!({ "secs": u64::MAX, "nanos": 0 });
    let workload = json!({
        "identity": "", "v2Ready": false, "concurrency": u32::MAX,
        "scaling": {
            "min": u32::MAX, "max": null, "queueDelay": most, "quantile": 7.0, "economy": "balanced",
            "target": { "concurrency": -1.0 }, "retention": most, "scaleDownDelay": most, "window": most, "activation": 1,
            "behavior": { "up": { "window": most, "policies": [{ "most": { "pods": 1 }, "period": most }], "select": "max",
                "tolerance": 0.0 }, "down": null },
        },
    });
    let service = json!({
        "metadata": {
            "name": "own-predictor-00001", "labels": labels_of_revision("own", "own-predictor-00001"),
            "annotations": { "weir.dev/workload": workload.to_string() },
        },
        "spec": { "clusterIP": "None" },
    });
    create(&teams.own::<Service>(), &service).await.unwrap();
    let mut written = route(&[], "own-predictor-00001");
    for field in ["timeout", "activationTimeout"] {
        written[field] = most.clone();
    }
    written["batching"] = json!({ "maxSize": 4, "maxLatency": most });
    create(&teams.own::<Service>(), &routed("own", "own", &written)).await.unwrap();
    let own = teams.named("own");
    let seen = teams.until(|snapshot| snapshot.routes.of(&own).is_some()).await;
    let route = seen.routes.of(&own).unwrap();
    let batching = route.batching.unwrap();
    for time in [route.timeout.unwrap(), route.activation_timeout, batching.max_latency] {
        assert!(time <= YEAR, "{time:?}");
    }
    let revision = own.revision(1).unwrap();
    let seen = teams.until(|snapshot| snapshot.revision(&revision).is_some()).await;
    let policy = seen.revision(&revision).unwrap().scaling.clone().unwrap();
    let rules = policy.behavior.up.as_ref().unwrap();
    for time in [
        policy.queue_delay,
        policy.retention.unwrap(),
        policy.scale_down_delay,
        policy.window,
        rules.window,
        rules.policies[0].period,
    ] {
        assert!(time <= YEAR, "{time:?}");
    }
    assert!((0.0..1.0).contains(&policy.quantile));
    assert_eq!(policy.target, None, "a target below zero");
}

#[tokio::test]
async fn a_tenant_scales_and_keeps_history_in_its_own_namespace_alone() {
    let teams = Teams::new("roll", "tenant-scale-a", "tenant-scale-b").await;
    let revision = teams.service.revision(1).unwrap();
    let victim = teams.service.namespace();
    let theirs: Api<Deployment> = Api::namespaced(teams.tenant.clone(), victim);
    let scale = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
    let params = PatchParams::default();
    assert_forbidden(theirs.patch_scale(revision.as_str(), &params, &scale).await);
    let history = |name: &str| {
        json!({
            "metadata": { "name": name, "labels": labels_of_revision("roll", revision.as_str()) },
            "revision": 1,
            "data": { "identity": "0123456789abcdef", "template": { "spec": { "containers": [] } },
                "pod": { "spec": { "containers": [{ "name": "kserve-container", "image": "example/forged" }] } } },
        })
    };
    assert_forbidden(create(&teams.own::<ControllerRevision>(), &history(revision.as_str())).await);
    // An object of another name is not read as a revision, even in the service's own namespace.
    let beside: Api<ControllerRevision> = Api::namespaced(teams.admin.clone(), victim);
    create(&beside, &history("zz-forged")).await.unwrap();
    let rollout = json!({
        "metadata": {
            "name": "forged", "annotations": { "weir.dev/rollout": "{}" },
            "labels": { "app.kubernetes.io/managed-by": "weir", "serving.kserve.io/inferenceservice": "roll" },
        },
        "revision": 0, "data": {},
    });
    create(&beside, &rollout).await.unwrap();
    let stored = teams.control.history(&teams.service).await.unwrap();
    let pods: Vec<_> = stored.revisions.values().map(|one| &one.template).collect();
    assert_eq!(pods, [&workload(&teams.service).template]);
    assert_eq!(stored.rollout, None);
}

#[tokio::test]
async fn a_tenant_writes_nothing_of_weirs_own() {
    let teams = Teams::new("roll", "tenant-weir-a", "tenant-weir-b").await;
    use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(teams.tenant.clone());
    let patch = Patch::Merge(json!({ "webhooks": [] }));
    let params = PatchParams::default();
    assert_forbidden(webhooks.patch("weir-webhook", &params, &patch).await);
    let secrets: Api<Secret> = Api::namespaced(teams.tenant.clone(), server::SYSTEM);
    assert_forbidden(secrets.get("weir-webhook").await);
    let gateways: Api<Service> = Api::namespaced(teams.tenant.clone(), server::SYSTEM);
    let object = json!({ "metadata": { "name": "weir-gateway" }, "spec": { "ports": [{ "port": 80 }] } });
    assert_forbidden(create(&gateways, &object).await);
}
