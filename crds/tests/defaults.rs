//! Defaults that the samples do not show.

#![expect(clippy::unwrap_used, reason = "a test may end at once")]

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
fn of_several_forms_none_is_chosen() {
    let predictor = with_defaults(service("{sklearn: {}, onnx: {}}")).spec.predictor;
    assert_eq!(predictor.model, None);
    let given: Vec<_> = predictor.frameworks().map(|(name, _)| name).collect();
    assert_eq!(given, ["sklearn", "onnx"]);
}

#[test]
fn a_given_protocol_stays() {
    let predictor = with_defaults(service("{triton: {protocolVersion: grpc-v2}}")).spec.predictor;
    let protocol = predictor.model.unwrap().framework.protocol_version;
    assert_eq!(serde_json::to_value(protocol).unwrap(), "grpc-v2");
}

/// A limit beside a larger request would make a pod that Kubernetes refuses.
#[test]
fn a_given_resource_gets_no_default_beside_it() {
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
fn beside_others_the_serving_container_keeps_its_name() {
    let written = "{containers: [{name: proxy, image: x}, {name: kserve-container, image: z}]}";
    let pod = with_defaults(service(written)).spec.predictor.pod;
    let names: Vec<_> = pod.containers.iter().map(|container| &*container.name).collect();
    assert_eq!(names, ["proxy", "kserve-container"]);
    assert_eq!(pod.containers[0].resources, None);
    assert!(pod.containers[1].resources.is_some());
}

/// `transformer-container` is collocated with a model; it serves nothing itself.
#[test]
fn a_container_beside_a_model_is_unchanged() {
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
