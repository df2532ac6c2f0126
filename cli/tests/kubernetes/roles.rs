//! All processes run with exactly the chart's Roles. From the first object of a service to the last, no call is
//! forbidden, and every granted right is used.

use std::collections::BTreeSet;
use std::path::Path;
use std::slice;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::audit::{Calls, Right, rights};
use crate::chart::{name, of_kinds, rendered, rules};
use crate::cluster::{apply, get, kubectl, wait_until};
use crate::process::Start;
use crate::revocation::{self, keys_are_revoked_promptly};

const SYSTEM: &str = "roles-system";
const TEAM: &str = "roles-team";
/// Secret of the chart with the certificate of gateways.
const CERTIFICATES: &str = "weir-gateway-peers";
const COMPONENTS: [&str; 3] = ["controller", "gateway", "autoscaler"];
const ROLES: [&str; 2] = ["Role", "ClusterRole"];

/// Installs the chart's rights for the services of one namespace and the webhook's objects; returns the rendered
/// documents.
fn install() -> Vec<String> {
    for namespace in [SYSTEM, TEAM] {
        kubectl(&["create", "namespace", namespace], "");
    }
    let namespace = format!("watchNamespace={TEAM}");
    let settings: Vec<&str> = revocation::SETTINGS.into_iter().chain([&*namespace]).collect();
    let documents = rendered(SYSTEM, &settings);
    let kinds = [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Secret",
        "ValidatingWebhookConfiguration",
    ];
    apply(&of_kinds(&documents, &kinds));
    documents
}

fn service(more: &Value) -> String {
    let mut predictor = json!({
        "minReplicas": 1, "maxReplicas": 3,
        "model": {"modelFormat": {"name": "pytorch"}, "storageUri": "file:///models/digits"},
    });
    for (field, value) in more.as_object().unwrap() {
        predictor[field] = value.clone();
    }
    json!({
        "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
        "metadata": {"name": "digits", "namespace": TEAM}, "spec": {"predictor": predictor},
    })
    .to_string()
}

fn runtime() -> String {
    json!({
        "apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "metadata": {"name": "test-runtime", "namespace": TEAM},
        "spec": {
            "supportedModelFormats": [{"name": "pytorch", "autoSelect": true}],
            "containers": [{"name": "kserve-container", "image": "example/server:1"}],
        },
    })
    .to_string()
}

fn digits() -> Value {
    get(TEAM, "inferenceservice/digits")
}

fn until_digits(what: &str, is_so: impl Fn(&Value) -> bool) {
    wait_until(what, || format!("{:#}", digits()), || is_so(&digits()));
}

fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == kind);
    found.map(|condition| condition["status"].clone()).unwrap_or_default()
}

fn until_rolled_out(revision: u32) {
    let name = format!("digits-predictor-{revision:05}");
    until_digits(&name, |object| {
        let predictor = &object["status"]["components"]["predictor"];
        condition(object, "PredictorReady") == "True" && predictor["latestRolledoutRevision"] == name.as_str()
    });
}

fn until_replicas(deployment: &str, count: u64) {
    let found = || get(TEAM, &format!("deployment/{deployment}"))["spec"]["replicas"].clone();
    wait_until(&format!("{count} replicas of {deployment}"), || found().to_string(), || found() == count);
}

/// Number of the revision that causes the first one to be dropped: ten unused revisions are kept.
const LAST: u32 = 14;

/// Creates revisions until the first one's ControllerRevision is deleted.
fn until_the_first_revision_is_dropped() {
    for number in 3..=LAST {
        let name = format!("digits-predictor-{number:05}");
        // One model is in a bucket, for which the controller reads the pods' ServiceAccount.
        let uri = if number == 3 { "s3://models/digits" } else { "file:///models/digits" };
        let model = json!({"modelFormat": {"name": "pytorch"}, "storageUri": uri});
        apply(&[service(&json!({"labels": {"team": format!("t{number}")}, "model": model}))]);
        until_digits(&name, |object| {
            object["status"]["components"]["predictor"]["latestCreatedRevision"] == name.as_str()
        });
    }
    until_rolled_out(LAST);
    let first = || get(TEAM, "controllerrevision/digits-predictor-00001");
    wait_until("the first is dropped", || first().to_string(), || first().is_null());
}

/// Runs through the whole life of a service, and returns everything that the processes printed.
fn life(folder: &Path) -> String {
    let namespaces = (SYSTEM, TEAM);
    let start = |component: &str, more: &[&str]| Start { component, name: component, namespaces, folder }.process(more);
    let controller = start("controller", &["--webhook-port", "0", "--peer-secret", CERTIFICATES]);
    let gateway = start("gateway", &["--port", "0", "--peer-secret", CERTIFICATES]);
    let autoscaler = start("autoscaler", &[]);
    add_second_node();
    apply(&[runtime(), service(&json!({}))]);
    until_rolled_out(1);
    // The autoscaler raises a number below the bounds even without any report.
    apply(&[service(&json!({"minReplicas": 2}))]);
    until_replicas("digits-predictor-00001", 2);
    apply(&[service(&json!({"labels": {"team": "a"}}))]);
    until_rolled_out(2);
    until_the_first_revision_is_dropped();
    deleted_objects_come_back();
    let mut output = controller.end();
    let controller = start("controller", &["--webhook-port", "0", "--peer-secret", CERTIFICATES]);
    until_rolled_out(LAST);
    stop_and_start();
    let_an_hpa_scale();
    refuse_twice();
    until_the_webhook_is_trusted();
    until_gateways_have_a_certificate();
    output.push_str(&keys_are_revoked_promptly(namespaces, folder));
    until_nothing_is_left();
    for process in [controller, gateway, autoscaler] {
        output.push_str(&process.end());
    }
    output
}

/// Applies an invalid manifest twice: the second Event with the same message increments the count of the first.
fn refuse_twice() {
    let wrong = service(&json!({"affinity": {"nodeAfinity": {}}}));
    let mended = service(&json!({"labels": {"team": format!("t{LAST}")}}));
    let is_refused = |object: &Value| condition(object, "Ready") == "False";
    for _ in 0..2 {
        apply(slice::from_ref(&mended));
        until_digits("mended", |object| !is_refused(object));
        apply(slice::from_ref(&wrong));
        until_digits("refused", is_refused);
    }
    let events = || get(TEAM, "events.events.k8s.io");
    let is_counted = || {
        let events = events();
        let mut all = events["items"].as_array().into_iter().flatten();
        all.any(|event| event["series"]["count"] == 2)
    };
    wait_until("the event is counted", || events().to_string(), is_counted);
}

fn deleted_objects_come_back() {
    for object in [format!("deployment/digits-predictor-{LAST:05}"), "service/digits".to_owned()] {
        kubectl(&["delete", &object, "-n", TEAM], "");
        let is_back = || get(TEAM, &object).is_object();
        wait_until(&object, || digits().to_string(), is_back);
    }
}

fn stop_and_start() {
    let annotate = |change: &str| {
        kubectl(&["annotate", "inferenceservice/digits", "-n", TEAM, change], "");
    };
    annotate("serving.kserve.io/stop=true");
    until_digits("stopped", |object| condition(object, "Stopped") == "True");
    annotate("serving.kserve.io/stop-");
    until_rolled_out(LAST);
}

/// Adds a second node for pods without GPUs. With only one node, a scale-in has no choice.
fn add_second_node() {
    let size = json!({"cpu": "1000", "memory": "10Ti", "pods": "10000"});
    apply(&[json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "roles-1", "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": "roles-1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        },
        "status": {"allocatable": size, "capacity": size},
    })
    .to_string()]);
}

/// An HPA sets more replicas than the bounds of Weir's autoscaler allow. Weir accepts that, and takes over again when
/// the HPA is gone.
fn let_an_hpa_scale() {
    let deployment = format!("digits-predictor-{LAST:05}");
    let found = || get(TEAM, &format!("deployment/{deployment}"));
    apply(&[json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "mine", "namespace": TEAM},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
            "minReplicas": 5, "maxReplicas": 6,
        },
    })
    .to_string()]);
    until_digits("the condition ScaledByAnother", |object| condition(object, "ScaledByAnother") == "True");
    until_replicas(&deployment, 5);
    let changes = found()["metadata"]["generation"].clone();
    wait_until("all five are ready", || found().to_string(), || found()["status"]["readyReplicas"] == 5);
    assert_eq!(found()["metadata"]["generation"], changes, "nothing else sets the replicas");
    kubectl(&["delete", "hpa/mine", "-n", TEAM], "");
    until_replicas(&deployment, 3);
    until_digits("no condition ScaledByAnother", |object| condition(object, "ScaledByAnother").is_null());
}

fn until_the_webhook_is_trusted() {
    let bundle = || {
        let found = get(SYSTEM, "validatingwebhookconfiguration/weir-webhook");
        found["webhooks"][0]["clientConfig"]["caBundle"].clone()
    };
    let has_authorities = || bundle().is_string();
    wait_until("the webhook has authorities", || bundle().to_string(), has_authorities);
}

fn until_gateways_have_a_certificate() {
    let certificate = || get(SYSTEM, &format!("secret/{CERTIFICATES}"))["data"]["tls.crt"].clone();
    wait_until("a certificate", || certificate().to_string(), || certificate().is_string());
}

fn until_nothing_is_left() {
    let service = "inferenceservice/digits";
    kubectl(&["delete", service, "-n", TEAM, "--wait"], "");
    let kinds = "deployments,services,controllerrevisions";
    let left = || kubectl(&["get", kinds, "-n", TEAM, "-o", "name"], "");
    wait_until("nothing is left", left, || left().is_empty());
}

/// Returns the rights of a component from all of its roles.
fn granted(documents: &[String], component: &str) -> BTreeSet<Right> {
    let roles = of_kinds(documents, &ROLES);
    let own = [format!("weir-{component}"), format!("weir-{component}-services")];
    let roles = roles.iter().filter(|role| own.iter().any(|own| name(role) == own));
    roles.flat_map(|role| rules(role)).flat_map(|rule| rights(&rule)).collect()
}

#[test]
fn everything_runs_with_exactly_the_rights_of_the_chart() {
    let documents = install();
    let folder = TempDir::new().unwrap();
    let output = life(folder.path()).to_lowercase();
    // The gateway's audit has lines about clients, which are refused until their service has a route.
    let refused = |line: &&str| line.contains("forbidden") && !line.contains("access::audit");
    let refused: Vec<_> = output.lines().filter(refused).collect();
    assert_eq!(refused, Vec::<&str>::new());
    let everywhere = rendered(SYSTEM, &revocation::SETTINGS);
    for component in COMPONENTS {
        let calls = Calls::of(SYSTEM, &format!("weir-{component}"));
        assert_eq!(calls.forbidden, Vec::<String>::new(), "weir-{component}");
        let granted = granted(&documents, component);
        let unused: Vec<_> = granted.difference(&calls.used).collect();
        assert_eq!(unused, Vec::<&Right>::new(), "weir-{component} does not need them");
        let all = self::granted(&everywhere, component);
        assert_eq!(all, granted, "weir-{component} in all namespaces");
    }
}
