//! Services with real model files, on the real model server.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns a model file with the inputs and outputs of Triton's example: sum and difference.
pub(crate) fn model_file() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.join("tests/models/repository/add_sub/1/model.pt")
}

/// Creates a folder with copies of the model file under these names.
pub(crate) fn folder_of(folder: &Path, files: &[&str]) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    for file in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(model_file(), path).unwrap();
    }
    folder.to_owned()
}

/// Returns the manifest of a service with one replica of the model at `uri`, and these further lines in `metadata`.
pub(crate) fn manifest(name: &str, uri: &str, metadata: &str) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: {name}
{metadata}spec:
  predictor:
    minReplicas: 1
    maxReplicas: 1
    model:
      modelFormat:
        name: pytorch
      storageUri: {uri}
"
    )
}

/// Returns the `storageUri` of a path.
pub(crate) fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}
