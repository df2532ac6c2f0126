//! Sample manifests, each with a `.meaning` file that contains the object with its defaults and its unsupported fields.
//! `UPDATE=1 cargo test -p weir-crds --test samples` rewrites the `.meaning` files.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, as intended")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_crds::{Manifest, Object, Unsupported, read, unsupported, unsupported_in_runtime, with_defaults};

fn samples() -> Vec<PathBuf> {
    let mut files = inside(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples"));
    files.retain(|file| is_yaml(file));
    files
}

fn is_yaml(file: &Path) -> bool {
    file.extension().is_some_and(|kind| kind == "yaml")
}

fn inside(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns the content of a manifest's `.meaning` file: the object with its defaults, and the unsupported fields.
fn meaning(manifest: Manifest) -> String {
    let Manifest { object, spans } = manifest;
    let (written, not) = match object {
        Object::InferenceService(service) => {
            let not = unsupported(&service);
            (yaml(&with_defaults((*service).clone())), not)
        }
        Object::ServingRuntime(runtime) => (yaml(&runtime), unsupported_in_runtime(&runtime.spec)),
        Object::ClusterServingRuntime(runtime) => (yaml(&runtime), unsupported_in_runtime(&runtime.spec.runtime)),
        Object::StorageContainer(container) => (yaml(&container.spec), Vec::new()),
        Object::Other { kind, name } => (format!("# ignored: {kind} {name:?}\n"), Vec::new()),
    };
    let mut meaning = format!("---\n{written}");
    for Unsupported { field, effect, reason } in not {
        let line = spans.of_field(&field).unwrap().line;
        writeln!(meaning, "# line {line}: {field}: {effect:?}: {reason}").unwrap();
    }
    meaning
}

fn yaml(object: &impl Serialize) -> String {
    serde_saphyr::to_string(object).unwrap()
}

#[test]
fn samples_have_the_recorded_meaning() {
    assert!(samples().len() > 5);
    for sample in samples() {
        let text = std::fs::read_to_string(&sample).unwrap();
        let manifests = read("sample", &text).unwrap();
        let expected: String = manifests.into_iter().map(meaning).collect();
        let beside = sample.with_extension("meaning");
        #[expect(clippy::disallowed_methods, reason = "UPDATE is the only switch of this test")]
        if std::env::var("UPDATE").is_ok() {
            std::fs::write(&beside, &expected).unwrap();
        }
        let found = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(found, expected, "{}", beside.display());
        is_complete(&expected);
    }
}

/// The examples are valid and use no unsupported field.
#[test]
fn examples_are_valid_and_fully_supported() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let folders = inside(&examples).into_iter().filter(|file| file.is_dir());
    let files: Vec<_> = folders.flat_map(|folder| inside(&folder)).collect();
    let mut services = 0;
    for file in files.iter().filter(|file| is_yaml(file)) {
        let text = std::fs::read_to_string(file).unwrap();
        for manifest in read(&file.display().to_string(), &text).unwrap() {
            if let Object::InferenceService(service) = manifest.object {
                assert_eq!(unsupported(&service), [], "{}", file.display());
                services += 1;
            }
        }
    }
    assert!(services > 1);
}

/// Checks that defaults do not change a meaning, read as a manifest.
fn is_complete(meaning: &str) {
    for manifest in read("meaning", meaning).unwrap() {
        if let Object::InferenceService(service) = manifest.object {
            assert_eq!(with_defaults((*service).clone()), *service);
        }
    }
}
