//! Failures of revisions as the API server, its controllers and its scheduler report them, with what to do.

use k8s_openapi::api::core::v1::{Namespace, PodTemplateSpec, ResourceQuota};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weir_cluster::{Apply, ClusterError, Desired, Directory, ServiceName, Snapshot, Storage, Workload};
use weir_cluster_kubernetes::{Kubernetes, Options};

use crate::server;

/// Service with one replica, in its own namespace.
struct Case {
    client: Client,
    cluster: Kubernetes,
    workload: Workload,
}

impl Case {
    async fn new(namespace: &str, template: PodTemplateSpec) -> Self {
        let client = server::client().await;
        server::namespace(&client, namespace).await;
        let service = ServiceName::new(namespace, "digits").unwrap();
        Self {
            client,
            cluster: server::cluster().await,
            workload: Workload::new(service.revision(1).unwrap(), template, 1),
        }
    }

    async fn apply(&self) -> Result<(), ClusterError> {
        apply(&self.cluster, &self.workload).await
    }

    async fn see(&self, what: &str, is_so: impl Fn(&Snapshot) -> bool) {
        let mut snapshots = self.cluster.watch();
        let wait = snapshots.wait_for(|snapshot| is_so(snapshot));
        let seen = tokio::time::timeout(server::DEADLINE, wait).await.is_ok();
        let revision = self.cluster.watch().borrow().revision(&self.workload.revision).cloned();
        assert!(seen, "waited for {what}: {revision:#?}");
    }

    /// Waits until the revision's failure message has all of these words.
    async fn fails(&self, words: &[&str]) {
        self.apply().await.unwrap();
        self.see(&words.join(", "), |snapshot| {
            let revision = snapshot.revision(&self.workload.revision);
            let failure = revision.and_then(|revision| revision.failure.as_ref());
            failure.is_some_and(|failure| words.iter().all(|word| failure.message.contains(word)))
        })
        .await;
    }

    async fn runs(&self) {
        self.apply().await.unwrap();
        self.see("a ready replica", |snapshot| {
            let revision = snapshot.revision(&self.workload.revision);
            revision.is_some_and(|revision| revision.ready().count() == 1)
        })
        .await;
    }
}

async fn apply(cluster: &Kubernetes, workload: &Workload) -> Result<(), ClusterError> {
    let service = workload.revision.service().clone();
    let desired = Desired::new(service, vec![workload.clone()], None)?;
    cluster.apply(desired).await.map(|_| ())
}

/// Returns the suite's pod with further fields.
fn pod_with(more: Value) -> PodTemplateSpec {
    let mut template = serde_json::to_value(server::template()).unwrap();
    let spec = template["spec"].as_object_mut().unwrap();
    spec.extend(more.as_object().unwrap().clone());
    serde_json::from_value(template).unwrap()
}

/// Returns the suite's pod with further fields in its container.
fn container_with(more: Value) -> PodTemplateSpec {
    let mut template = serde_json::to_value(server::template()).unwrap();
    let container = template["spec"]["containers"][0].as_object_mut().unwrap();
    container.extend(more.as_object().unwrap().clone());
    serde_json::from_value(template).unwrap()
}

async fn restrict(client: &Client, namespace: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let label = json!({ "metadata": { "labels": {
        "pod-security.kubernetes.io/enforce": "restricted"
    } } });
    let params = PatchParams::default();
    namespaces.patch(namespace, &params, &Patch::Merge(label)).await.unwrap();
}

#[tokio::test]
async fn an_exhausted_quota_is_reported_until_there_is_room() {
    let case = Case::new("fails-quota", server::template()).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(case.client.clone(), "fails-quota");
    let quota: ResourceQuota = serde_json::from_value(json!({
        "metadata": { "name": "full" }, "spec": { "hard": { "requests.cpu": "0" } },
    }))
    .unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    case.fails(&["exceeded quota: full", "raise the quota"]).await;
    quotas.delete("full", &Default::default()).await.unwrap();
    case.runs().await;
}

#[tokio::test]
async fn a_restricted_namespace_accepts_pods_that_do_not_set_their_own_security() {
    let case = Case::new("fails-not-restricted", server::template()).await;
    restrict(&case.client, "fails-not-restricted").await;
    case.runs().await;
}

#[tokio::test]
async fn a_pod_that_a_restricted_namespace_refuses_is_a_failure() {
    let root = container_with(json!({ "securityContext": { "runAsUser": 0 } }));
    let case = Case::new("fails-restricted", root).await;
    restrict(&case.client, "fails-restricted").await;
    case.fails(&["violates PodSecurity", "securityContext"]).await;
}

#[tokio::test]
async fn a_host_path_that_a_namespace_refuses_is_reported() {
    let volumes = json!({ "volumes": [{ "name": "data", "hostPath": { "path": "/data" } }] });
    let case = Case::new("fails-host-path", pod_with(volumes)).await;
    restrict(&case.client, "fails-host-path").await;
    case.fails(&["violates PodSecurity", "remove the"]).await;
}

#[tokio::test]
async fn a_missing_scheduler_is_reported() {
    let scheduler = json!({ "schedulerName": "nobody" });
    let case = Case::new("fails-scheduler", pod_with(scheduler)).await;
    case.fails(&["no scheduler called nobody", "correct schedulerName"]).await;
}

#[tokio::test]
async fn a_gpu_that_no_node_has_is_reported() {
    let gpus = json!({ "resources": { "limits": { "nvidia.com/gpu": "64" } } });
    let case = Case::new("fails-gpu", container_with(gpus)).await;
    case.fails(&["Insufficient nvidia.com/gpu", "request less"]).await;
    let seen = case.cluster.watch().borrow().revision(&case.workload.revision).cloned().unwrap();
    let lacks = seen.failure.as_ref().and_then(|failure| failure.lacks.as_deref());
    assert_eq!(lacks, Some("nvidia.com/gpu"));
}

#[tokio::test]
async fn whole_gpus_and_parts_of_gpus_are_placed() {
    for (namespace, name) in [("runs-gpu", "nvidia.com/gpu"), ("runs-mig", "nvidia.com/mig-1g.10gb")] {
        let asks = json!({ "resources": { "requests": { name: "1" } } });
        Case::new(namespace, container_with(asks)).await.runs().await;
    }
}

#[tokio::test]
async fn a_missing_volume_claim_is_reported() {
    let mut case = Case::new("fails-claim", server::template()).await;
    case.workload.storage =
        vec![Storage { uri: "pvc://nowhere/digits".into(), mount_path: "/mnt/models".into(), claims: None }];
    case.fails(&["\"nowhere\" not found", "create that PersistentVolumeClaim"]).await;
}

#[tokio::test]
async fn a_missing_device_claim_is_reported() {
    let claims = json!([{ "name": "gpu", "resourceClaimTemplateName": "one-gpu" }]);
    let case = Case::new("fails-device", pod_with(json!({ "resourceClaims": claims }))).await;
    case.fails(&["one-gpu", "create"]).await;
}

#[tokio::test]
async fn missing_objects_that_a_pod_names_are_reported() {
    for (namespace, more, words) in [
        ("fails-runtime-class", json!({ "runtimeClassName": "nvidia" }), ["RuntimeClass", "create that RuntimeClass"]),
        (
            "fails-priority-class",
            json!({ "priorityClassName": "nobody" }),
            ["no PriorityClass with name nobody", "create that PriorityClass"],
        ),
        (
            "fails-account",
            json!({ "serviceAccountName": "nobody" }),
            ["\"nobody\" not found", "create that ServiceAccount"],
        ),
    ] {
        Case::new(namespace, pod_with(more)).await.fails(&words).await;
    }
}

#[tokio::test]
async fn a_write_that_is_forbidden_for_now_is_a_denial() {
    let mut case = Case::new("fails-rights", server::template()).await;
    let client = server::client_with("test-nobody", Vec::new()).await;
    let refused = Kubernetes::connect(client, Options::default()).await;
    assert!(matches!(refused, Err(ClusterError::Denied { .. })), "{refused:?}");
    let nowhere = ServiceName::new("no-such-namespace", "digits").unwrap();
    case.workload.revision = nowhere.revision(1).unwrap();
    let denied = case.apply().await.unwrap_err();
    assert!(matches!(denied, ClusterError::Denied { .. }), "{denied:?}");
    assert!(denied.to_string().contains("create that namespace"), "{denied}");
}

#[tokio::test]
async fn an_object_that_can_never_be_valid_is_a_refusal() {
    let case = Case::new("fails-invalid", pod_with(json!({ "restartPolicy": "Never" }))).await;
    let refused = case.apply().await.unwrap_err();
    assert!(matches!(refused, ClusterError::Refused { .. }), "{refused:?}");
    assert!(refused.to_string().contains("restartPolicy"), "{refused}");
}

/// Waits until one replica serves and another cannot be placed, for a reason with all of these words.
async fn lacks_one(case: &Case, words: &[&str]) {
    case.apply().await.unwrap();
    case.see(&words.join(", "), |snapshot| {
        let revision = snapshot.revision(&case.workload.revision);
        revision.is_some_and(|revision| {
            let unplaced = revision.unplaced.as_ref();
            let is_told = unplaced.is_some_and(|unplaced| words.iter().all(|word| unplaced.message.contains(word)));
            revision.ready().count() == 1 && revision.failure.is_none() && is_told
        })
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_a_quota_refuses_is_reported_beside_one_that_serves() {
    let mut case = Case::new("lacks-quota", server::template()).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(case.client.clone(), "lacks-quota");
    let quota = json!({ "metadata": { "name": "pods" }, "spec": { "hard": { "pods": "1" } } });
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    case.workload.replicas = 2;
    lacks_one(&case, &["exceeded quota", "raise the quota"]).await;
}

#[tokio::test]
async fn a_replica_that_no_node_has_room_for_is_reported_beside_one_that_serves() {
    let itself = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/os",
        "labelSelector": { "matchLabels": { "serving.kserve.io/inferenceservice": "digits" } },
    }] } });
    let mut case = Case::new("lacks-node", pod_with(json!({ "affinity": itself }))).await;
    case.workload.replicas = 2;
    lacks_one(&case, &["no node takes it"]).await;
}
