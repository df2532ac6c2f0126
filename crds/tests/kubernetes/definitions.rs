//! Behaviour of `kubectl` with the definitions.

use serde_json::Value;
use weir_crds::DEFINITIONS;

use crate::kubectl::Namespace;

/// Maximum size in bytes of an object's annotations in Kubernetes, less a quarter to leave room for growth.
const KEPT: usize = 256 * 1024 * 3 / 4;

const SERVICE: &str = "
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: digits}
spec:
  predictor:
    model: {modelFormat: {name: pytorch}, storageUri: pvc://models/digits}
";

#[test]
fn client_side_apply_stores_the_definitions_and_is_idempotent() {
    let namespace = Namespace::new("definitions-applied");
    for definition in DEFINITIONS {
        let stored = namespace.done(&["get", "crd", definition.name, "-o", "json"], "");
        let stored: Value = serde_json::from_str(&stored).unwrap();
        let last = "kubectl.kubernetes.io/last-applied-configuration";
        let kept = stored["metadata"]["annotations"][last].as_str().unwrap();
        assert!(kept.len() < KEPT, "{}: {} bytes", definition.name, kept.len());
        let conditions = stored["status"]["conditions"].as_array().unwrap();
        let is = |kind: &str| conditions.iter().find(|c| c["type"] == kind).map(|c| &c["status"]);
        assert_eq!(is("Established").unwrap(), "True");
        assert_eq!(is("NonStructuralSchema"), None);
        let again = namespace.done(&["apply", "-f", "-"], definition.yaml);
        assert!(again.ends_with("unchanged\n"), "{again}");
    }
}

#[test]
fn kubectl_explain_describes_fields() {
    let namespace = Namespace::new("definitions-explained");
    for (field, expected) in [
        ("isvc.spec.predictor.model.storageUri", "<string>"),
        ("isvc.spec.predictor.minReplicas", "<integer>"),
        ("isvc.spec.canary", "<[]Object>"),
        ("servingruntime.spec.supportedModelFormats", "<[]Object>"),
        ("clusterservingruntime.spec.containers", "<[]Object>"),
    ] {
        let explained = namespace.done(&["explain", field], "");
        assert!(explained.contains(expected), "{explained}");
        let description = explained.split_once("DESCRIPTION:").unwrap().1.trim();
        assert!(!description.starts_with("<empty>"), "{explained}");
    }
}

#[test]
fn kubectl_get_prints_kserves_columns() {
    let namespace = Namespace::new("definitions-columns");
    namespace.done(&["apply", "-f", "-"], SERVICE);
    let table = namespace.done(&["get", "isvc"], "");
    let head: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head.join(" "), "NAME URL READY PREV LATEST PREVROLLEDOUTREVISION LATESTREADYREVISION AGE");
}

#[test]
fn kubectl_scale_sets_the_minimum_of_replicas() {
    let namespace = Namespace::new("definitions-scaled");
    namespace.done(&["apply", "-f", "-"], SERVICE);
    let floor = || {
        let path = "jsonpath={.spec.predictor.minReplicas}";
        namespace.done(&["get", "isvc", "digits", "-o", path], "")
    };
    assert_eq!(floor(), "1");
    namespace.done(&["scale", "isvc/digits", "--replicas", "3"], "");
    assert_eq!(floor(), "3");
    namespace.done(&["scale", "isvc/digits", "--replicas", "0"], "");
    assert_eq!(floor(), "0");
}

#[test]
fn a_status_patch_does_not_change_the_spec() {
    let namespace = Namespace::new("definitions-status");
    namespace.done(&["apply", "-f", "-"], SERVICE);
    let status =
        r#"{"spec": {"predictor": {"minReplicas": 7}}, "status": {"observedGeneration": 1, "url": "http://digits"}}"#;
    let patch = ["patch", "isvc", "digits", "--subresource", "status", "--type", "merge", "-p"];
    namespace.done(&[&patch[..], &[status]].concat(), "");
    let path = "jsonpath={.spec.predictor.minReplicas} {.status.url} {.metadata.generation}";
    let fields = namespace.done(&["get", "isvc", "digits", "-o", path], "");
    assert_eq!(fields, "1 http://digits 1");
}
