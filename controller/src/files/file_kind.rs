//! Model files that were given in place of manifests, recognised by their first bytes and their extensions.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Extensions of other frameworks' formats, which Weir does not serve.
const OTHERS: [&str; 8] = ["safetensors", "h5", "keras", "pb", "tflite", "gguf", "joblib", "pkl"];

/// Kind of a file that holds a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A zip archive or a pickle, as saved by PyTorch.
    PyTorch,
    /// A model in the format of ONNX.
    Onnx,
    /// A model in a format that Weir does not serve.
    Other,
}

impl FileKind {
    /// Returns the kind of a file; None for a file that may be a manifest or cannot be read.
    pub(super) fn of(file: &Path) -> Option<Self> {
        let mut begin = [0; 4];
        let read = File::open(file).ok()?.read(&mut begin).ok()?;
        Self::by(file.extension(), &begin[..read])
    }

    fn by(extension: Option<&OsStr>, begin: &[u8]) -> Option<Self> {
        let extension = extension.and_then(OsStr::to_str).unwrap_or_default();
        let extension = extension.to_ascii_lowercase();
        match (&*extension, begin) {
            ("onnx", _) => Some(Self::Onnx),
            (other, _) if OTHERS.contains(&other) => Some(Self::Other),
            ("pt" | "pth" | "ts" | "torchscript", _) | (_, [b'P', b'K', 3, 4] | [0x80, 2..=5, ..]) => {
                Some(Self::PyTorch)
            }
            (_, _) => None,
        }
    }

    /// Returns what to do with the file instead of passing it to `-f`.
    pub(super) fn advice(self, file: &Path) -> String {
        match self {
            Self::PyTorch => manifest_advice(file, "pytorch"),
            Self::Onnx => manifest_advice(file, "onnx"),
            Self::Other => "a model file, and -f takes YAML of InferenceServices. Its format is not served: save a \
                PyTorch model with torch.export.save, or convert another to ONNX with skl2onnx or its library's own \
                export, and declare that file by storageUri"
                .to_owned(),
        }
    }
}

fn manifest_advice(file: &Path, format: &str) -> String {
    format!(
        "a model file, and -f takes YAML. To serve it, save this as service.yaml, then run `weir up -f service.yaml`:\n{}",
        manifest(file, format)
    )
}

/// Returns a manifest that serves the file.
fn manifest(file: &Path, format: &str) -> String {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    format!(
        "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: {}
spec:
  predictor:
    model:
      modelFormat:
        name: {format}
      storageUri: \"file://{}\"",
        service_name(file),
        path.display()
    )
}

/// Returns a name for the service, a DNS label made from the file's name.
fn service_name(file: &Path) -> String {
    let stem = file.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }
    };
    let name: String = stem.chars().map(plain).take(40).collect();
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => name.to_owned(),
        Some(_) => format!("model-{name}"),
        None => "model".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_cluster::ServiceName;

    use super::*;

    fn kind(name: &str, begin: &[u8]) -> Option<FileKind> {
        FileKind::by(Path::new(name).extension(), begin)
    }

    #[test]
    fn models_are_distinguished_from_manifests() {
        assert_eq!(kind("model.pt", b"PK\x03\x04"), Some(FileKind::PyTorch));
        assert_eq!(kind("model.pt", b"vers"), Some(FileKind::PyTorch));
        assert_eq!(kind("weights.bin", b"\x80\x02}q"), Some(FileKind::PyTorch));
        assert_eq!(kind("model.ONNX", b"\x08\x07"), Some(FileKind::Onnx));
        assert_eq!(kind("model.gguf", b"GGUF"), Some(FileKind::Other));
        assert_eq!(kind("service.yaml", b"apiV"), None);
        assert_eq!(kind("service.yaml", b""), None);
    }

    proptest! {
        #[test]
        fn the_advice_contains_a_valid_service_name(name in "[ -.0-~]{1,60}") {
            let file = Path::new("/models").join(format!("{name}.pt"));
            prop_assert!(ServiceName::new("default", &service_name(&file)).is_ok(), "{}", name);
        }
    }
}
