//! Tests that YAML is read as kubectl reads it.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, as intended")]

use std::collections::BTreeMap;

use weir_crds::{InferenceService, Manifest, Object, Position, read};

fn manifest(text: &str) -> Manifest {
    let manifests = read("service.yaml", text).unwrap();
    let [manifest] = <[_; 1]>::try_from(manifests).unwrap();
    manifest
}

fn service(text: &str) -> InferenceService {
    match manifest(text).object {
        Object::InferenceService(service) => std::sync::Arc::unwrap_or_clone(service),
        other => panic!("{other:?}"),
    }
}

const TEXT: &str = r#"
%YAML 1.2
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: &name digits
  labels: {8080: !!str 1, "on": "yes", name: *name, off: "off"}
  annotations:
    weir.dev/rollout: >-
      auto
      matic
spec:
  predictor:
    minReplicas: 0x10
    # A comment between.
    model:
      modelFormat:
        name: 'onnx'
      args: ["--a", '--b', --c=yes]
      resources: {limits: {cpu: .5, memory: 1_024}}
...
"#;

#[test]
fn scalars_mean_the_same_as_in_kubectl() {
    let service = service(TEXT);
    let pairs = [("8080", "1"), ("name", "digits"), ("on", "yes"), ("false", "off")];
    let labels: BTreeMap<_, _> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    assert_eq!(service.metadata.labels.unwrap(), labels);
    let annotations = service.metadata.annotations.unwrap();
    assert_eq!(annotations["weir.dev/rollout"], "auto matic");
    let predictor = service.spec.predictor;
    assert_eq!(predictor.component.min_replicas, Some(16));
    let container = predictor.model.unwrap().framework.container;
    assert_eq!(container.args.unwrap(), ["--a", "--b", "--c=yes"]);
    let limits = container.resources.unwrap().limits.unwrap();
    assert_eq!((&*limits["cpu"].0, &*limits["memory"].0), (".5", "1024"));
}

#[test]
fn every_field_has_a_position() {
    let spans = manifest(TEXT).spans;
    assert_eq!(spans.file(), "service.yaml");
    for (field, line, column) in [
        ("", 4, 1),
        ("metadata.annotations[weir.dev/rollout]", 10, 5),
        ("spec.predictor.minReplicas", 15, 5),
        ("spec.predictor.model.args[1]", 20, 21),
        // Fields that are not written have the position of the innermost enclosing field.
        ("spec.predictor.model.protocolVersion", 17, 5),
        ("spec.transformer.containers[0].image", 13, 1),
        ("elsewhere", 4, 1),
    ] {
        assert_eq!(spans.of_field(field), Some(Position { line, column }), "{field}");
    }
}

/// A worker thread of tokio has a stack of two MiB, and reading must need only a small part of it.
#[test]
fn reading_fits_a_small_stack() {
    let reader = std::thread::Builder::new().stack_size(1024 * 1024).spawn(|| service(TEXT).metadata.name).unwrap();
    assert_eq!(reader.join().unwrap().as_deref(), Some("digits"));
}

/// Adding a key takes constant time, however many there are: objects of an API server have up to 1.5 MiB of keys.
/// Comparing all keys with each other would take minutes here.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures the time that reading takes")]
fn a_wide_object_is_read_in_linear_time() {
    let begun = std::time::Instant::now();
    let keys: String = (0..100_000).map(|i| format!("    key{i}: a\n")).collect();
    let selector = keys.replace("    key", "      key");
    let selector = format!("  predictor:\n    nodeSelector:\n{selector}");
    assert!(read("service.yaml", &TEXT.replace("  predictor:\n", &selector)).is_ok());
    let unknown = TEXT.replace("  predictor:\n", &format!("  predictor:\n{keys}"));
    assert_eq!(read("service.yaml", &unknown).unwrap_err().len(), 100_000);
    let long = "x".repeat(1 << 20);
    let long = TEXT.replace("  predictor:\n", &format!("  predictor:\n    ? {long}\n    : 1\n"));
    assert_eq!(read("service.yaml", &long).unwrap_err().len(), 1);
    assert!(begun.elapsed() < std::time::Duration::from_secs(40));
}
