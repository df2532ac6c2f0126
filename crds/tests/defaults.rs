//! Defaults that the samples do not cover.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, as intended")]

use weir_crds::{InferenceService, Object, read, with_defaults};

fn service(predictor: &str) -> InferenceService {
    let text = format!(
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {{name: a}}\nspec:\n  predictor: {predictor}\n"
    );
    let [manifest] = <[_; 1]>::try_from(read("service.yaml", &text).unwrap()).unwrap();
    match manifest.object {
        Object::InferenceService(service) => std::sync::Arc::unwrap_or_clone(service),
        other => panic!("{other:?}"),
    }
}

#[test]
fn several_forms_are_left_unchanged() {
    let predictor = with_defaults(service("{sklearn: {}, onnx: {}}")).spec.predictor;
    assert_eq!(predictor.model, None);
    let given: Vec<_> = predictor.frameworks().map(|(name, _)| name).collect();
    assert_eq!(given, ["sklearn", "onnx"]);
}

#[test]
fn a_given_protocol_is_kept() {
    let predictor = with_defaults(service("{triton: {protocolVersion: grpc-v2}}")).spec.predictor;
    let protocol = predictor.model.unwrap().framework.protocol_version;
    assert_eq!(serde_json::to_value(protocol).unwrap(), "grpc-v2");
}

/// A default limit below the given request would make a pod that Kubernetes refuses.
#[test]
fn a_given_request_gets_no_default_limit() {
    let written = "{containers: [{name: server, image: x, resources: {requests: {cpu: 4}}}]}";
    let pod = with_defaults(service(written)).spec.predictor.pod;
    let resources = serde_json::to_value(&pod.containers[0].resources).unwrap();
    assert_eq!(
        resources,
        serde_json::json!({
            "limits": {"memory": "2Gi"},
            "requests": {"cpu": "4", "memory": "2Gi"},
        })
    );
}

#[test]
fn with_other_containers_the_serving_container_keeps_its_name() {
    let written = "{containers: [{name: proxy, image: x}, {name: kserve-container, image: z}]}";
    let pod = with_defaults(service(written)).spec.predictor.pod;
    let names: Vec<_> = pod.containers.iter().map(|container| &*container.name).collect();
    assert_eq!(names, ["proxy", "kserve-container"]);
    assert_eq!(pod.containers[0].resources, None);
    assert!(pod.containers[1].resources.is_some());
}

/// `transformer-container` runs in the model's pod but is not the serving container.
#[test]
fn a_container_next_to_a_model_is_unchanged() {
    let written = "{model: {modelFormat: {name: onnx}}, containers: [{name: transformer-container, image: x}]}";
    let given = service(written);
    let pod = with_defaults(given.clone()).spec.predictor.pod;
    assert_eq!(pod, given.spec.predictor.pod);
}

#[test]
fn a_single_listed_uri_is_the_storage_uri() {
    for listed in ["{uri: 'pvc://m'}", "{uri: 'pvc://m', mountPath: /mnt/models/}"] {
        for form in ["sklearn: {}", "model: {modelFormat: {name: sklearn}}"] {
            let written = service(&format!("{{{form}, storageUris: [{listed}]}}"));
            let predictor = with_defaults(written).spec.predictor;
            assert_eq!(predictor.storage_uris, []);
            let framework = predictor.model.unwrap().framework;
            assert_eq!(framework.storage_uri.as_deref(), Some("pvc://m"));
        }
    }
}
