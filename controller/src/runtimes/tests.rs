use weir_crds::inference_service::FailureReason;
use weir_crds::{Object, read};

use super::*;

/// Returns a runtime of a format with these protocols.
fn runtime(name: &str, scope: Scope, format: &str, protocols: &str) -> Runtime {
    let text = format!(
        "apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {{name: {name}}}
spec:
  supportedModelFormats: [{{name: {format}, autoSelect: true}}]
  protocolVersions: [{protocols}]
  containers: [{{name: kserve-container, image: x}}]
"
    );
    match read("runtime.yaml", &text).unwrap().remove(0).object {
        Object::ServingRuntime(runtime) => {
            Runtime { name: name.to_owned(), scope, since: 0, server: None, spec: runtime.spec }
        }
        other => panic!("{other:?}"),
    }
}

fn with_priority(mut runtime: Runtime, priority: i32) -> Runtime {
    runtime.spec.supported_model_formats[0].priority = Some(priority);
    runtime
}

fn own(name: &str) -> Runtime {
    runtime(name, Scope::Namespace("team".to_owned()), "pmml", "v2")
}

fn shared(name: &str, protocols: &str) -> Runtime {
    runtime(name, Scope::Cluster, "pmml", protocols)
}

fn model(format: &str, protocol: Option<&str>, runtime: Option<&str>) -> Model {
    let mut model = serde_json::json!({ "modelFormat": { "name": format } });
    model["protocolVersion"] = protocol.into();
    model["runtime"] = runtime.into();
    serde_json::from_value(model).unwrap()
}

fn chosen(runtimes: Vec<Runtime>, model: &Model) -> String {
    match Runtimes::new(runtimes).choose("team", model) {
        Ok(runtime) => runtime.name.clone(),
        Err(unserved) => unserved.message,
    }
}

#[test]
fn the_built_in_runtime_serves_its_formats() {
    for format in ["pytorch", "torchscript", "triton", "echo"] {
        for protocol in [None, Some("v2"), Some("grpc-v2")] {
            assert_eq!(chosen(Vec::new(), &model(format, protocol, None)), "weir-libtorch");
        }
    }
    assert_eq!(
        chosen(Vec::new(), &model("pytorch", Some("v1"), None)),
        "no runtime serves the format pytorch over v1; pytorch is served as grpc-v2, v2, version 1, version 2"
    );
}

#[test]
fn a_declared_runtime_replaces_the_built_in_one_of_its_name() {
    let runtimes = Runtimes::new(vec![shared("weir-libtorch", "v2")]);
    assert_eq!(runtimes.as_slice().len(), 1);
}

#[test]
fn runtimes_rank_by_namespace_then_priority_then_protocol_then_name() {
    let pmml = model("pmml", Some("v2"), None);
    let low = || with_priority(shared("a", "v2"), 1);
    let high = || with_priority(shared("b", "v2"), 2);
    assert_eq!(chosen(vec![low(), high(), shared("c", "v2")], &pmml), "b");
    assert_eq!(chosen(vec![low(), high(), own("z")], &pmml), "z");
    assert_eq!(chosen(vec![shared("b", "v2"), shared("a", "v2")], &pmml), "a");
    assert_eq!(chosen(vec![shared("a", "v2"), shared("b", "v1, v2")], &pmml), "b");
    let newer = Runtime { since: 9, ..shared("z", "v2") };
    assert_eq!(chosen(vec![shared("a", "v2"), newer], &pmml), "z");
}

#[test]
fn without_a_protocol_kserves_default_comes_first_and_then_any_other() {
    let pmml = model("pmml", None, None);
    let high = with_priority(shared("b", "v2"), 5);
    assert_eq!(chosen(vec![shared("a", "v1"), high], &pmml), "a");
    assert_eq!(chosen(vec![shared("b", "v2")], &pmml), "b");
    assert_eq!(chosen(vec![shared("b", "")], &pmml), "b");
}

#[test]
fn runtimes_of_other_namespaces_and_disabled_ones_are_not_chosen() {
    let other = runtime("x", Scope::Namespace("other".to_owned()), "pmml", "v2");
    let mut disabled = shared("off-duty", "v2");
    disabled.spec.disabled = Some(true);
    let found = chosen(vec![other, disabled], &model("pmml", Some("v2"), None));
    assert_eq!(
        found,
        "no runtime serves the format pmml over v2; formats that work here: echo, onnx, pytorch, torchscript, triton. Save \
         a PyTorch model with torch.export.save and declare it as pytorch, or convert another to ONNX and declare it as \
         onnx. On Kubernetes the ClusterServingRuntime kserve-pmmlserver takes pmml: kubectl apply --server-side -f \
         kserve-cluster-resources.yaml of a KServe release installs it"
    );
}

#[test]
fn a_named_runtime_has_to_exist_and_fit() {
    let runtimes = || vec![own("mine")];
    let named = |format: &str, protocol: &str, name: &str| {
        let model = model(format, Some(protocol), Some(name));
        let runtimes = Runtimes::new(runtimes());
        let chosen = runtimes.choose("team", &model);
        chosen.map(|runtime| runtime.name.clone()).map_err(|u| (u.reason, u.message))
    };
    assert_eq!(named("pmml", "v2", "mine"), Ok("mine".to_owned()));
    let (reason, message) = named("pmml", "v2", "yours").unwrap_err();
    assert_eq!(reason, FailureReason::RuntimeNotRecognized);
    assert_eq!(message, "there is no runtime yours; available: mine, weir-libtorch");
    let (reason, message) = named("keras", "v2", "mine").unwrap_err();
    assert_eq!(reason, FailureReason::NoSupportingRuntime);
    assert_eq!(message, "the runtime mine does not serve the format keras over v2");
    let (_, message) = named("pmml", "v1", "mine").unwrap_err();
    assert_eq!(message, "the runtime mine does not speak v1");
}
