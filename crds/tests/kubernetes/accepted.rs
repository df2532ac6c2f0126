//! Valid manifests: the API server accepts them with strict validation and keeps every field.

use std::path::{Path, PathBuf};

use serde_json::Value;
use weir_crds::{Object, read, with_defaults};

use crate::kubectl::Namespace;

#[test]
fn samples_keep_every_field() {
    check(&Namespace::new("samples"), &yaml_in("tests/samples"));
}

#[test]
fn examples_keep_every_field() {
    let examples = ["digits", "minilm", "ragged"].map(|name| format!("../examples/{name}"));
    let files: Vec<_> = examples.iter().flat_map(|folder| yaml_in(folder)).collect();
    check(&Namespace::new("examples"), &files);
}

fn yaml_in(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|kind| kind == "yaml")).collect()
}

fn check(namespace: &Namespace, files: &[PathBuf]) {
    let mut objects = 0;
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        for document in text.split("\n---\n") {
            objects += usize::from(is_kept(namespace, document));
        }
    }
    assert!(objects >= files.len(), "{objects} objects in {files:?}");
}

/// Returns true if the document is an object of Weir's API, after checking that the server keeps all of it.
fn is_kept(namespace: &Namespace, document: &str) -> bool {
    let written = object(document);
    if matches!(written, Object::Other { .. }) {
        return false;
    }
    // A namespace in the manifest would have to exist, so it is removed.
    let document = document.replace("  namespace: vision\n", "");
    let strictly = ["create", "-f", "-", "--dry-run=server", "--validate=strict", "-o", "yaml"];
    let kept = object(&namespace.done(&strictly, &document));
    assert_eq!(spec(kept), spec(written), "{document}");
    true
}

fn object(document: &str) -> Object {
    let mut manifests = read("manifest", document).unwrap();
    assert_eq!(manifests.len(), 1, "{document}");
    manifests.remove(0).object
}

fn spec(object: Object) -> Value {
    let spec = match object {
        Object::InferenceService(service) => serde_json::to_value(with_defaults((*service).clone()).spec),
        Object::ServingRuntime(runtime) => serde_json::to_value(runtime.spec),
        Object::ClusterServingRuntime(runtime) => serde_json::to_value(runtime.spec),
        Object::StorageContainer(container) => serde_json::to_value(container.spec),
        Object::Other { kind, .. } => panic!("{kind} is not ours"),
    };
    spec.unwrap()
}
