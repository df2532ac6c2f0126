//! `weir check` reports every error of every file in one pass.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::weir::PROGRAM;

/// Returns the manifest of a service with this predictor.
fn service(name: &str, predictor: &str) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: {name}
spec:
  predictor:
{predictor}"
    )
}

/// Returns a predictor with a model at this path.
fn model(path: &Path) -> String {
    format!(
        "    model:
      modelFormat:
        name: pytorch
      storageUri: file://{}
",
        path.display()
    )
}

/// Returns a predictor whose command always listens on this port.
fn fixed_port(port: u16) -> String {
    format!(
        "    containers:
    - name: kserve-container
      command: [/bin/true]
      ports:
      - containerPort: {port}
"
    )
}

/// Checks a folder; returns the exit code and the errors. Any program can be the runtime, because none is started.
fn check(folder: &Path) -> (Option<i32>, String) {
    let words = ["check", "--runtime", "/bin/true", "-f"];
    let output = Command::new(PROGRAM).args(words).arg(folder).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), message)
}

#[test]
fn errors_of_every_kind_in_every_file_are_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("net.onnx");
    fs::write(&onnx, b"\x08\x0e\x12\x07pytorch:3").unwrap();
    let gguf = folder.path().join("gguf.pt");
    fs::write(&gguf, b"GGUF\x03").unwrap();
    let missing = folder.path().join("missing.pt");
    let unknown_field = model(&missing).replace("modelFormat", "modelFormaat");
    for (name, predictor) in [
        ("Not_A_Name", model(&onnx)),
        ("unknown-field", unknown_field),
        ("invalid", format!("    minReplicas: -1\n{}", model(&onnx))),
        ("no-command", "    containers:\n    - name: kserve-container\n      image: triton\n".to_owned()),
        ("gguf", model(&gguf)),
        ("missing", model(&missing)),
        ("first", fixed_port(9001)),
        ("second", fixed_port(9001)),
    ] {
        let file = folder.path().join(format!("{name}.yaml"));
        fs::write(file, service(name, &predictor)).unwrap();
    }
    let (code, message) = check(folder.path());
    assert_eq!(code, Some(2), "{message}");
    let at = |file: &str| format!("{}/{file}.yaml:", folder.path().display());
    for (file, text) in [
        ("Not_A_Name", "metadata.name: service name \"Not_A_Name\""),
        ("unknown-field", "spec.predictor.model.modelFormaat: unknown field"),
        ("invalid", "spec.predictor.minReplicas"),
        ("no-command", "cannot run the image \"triton\" without Kubernetes"),
        ("gguf", "gguf.pt' is a GGUF model, not TorchScript: "),
        ("missing", "missing.pt is missing"),
        ("second", "it listens on port 9001, like default/first"),
    ] {
        let is_reported = |line: &str| line.starts_with(&at(file)) && line.contains(text);
        assert!(message.lines().any(is_reported), "{file}: {text}: {message}");
    }
}

#[test]
fn a_model_file_that_the_runtime_would_refuse_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.pt");
    let manifest = folder.path().join("service.yaml");
    fs::write(&manifest, service("m", &model(&file))).unwrap();
    let state_dict: &[u8] = b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01(ctorch._utils\n_rebuild_tensor_v2\n";
    let joblib: &[u8] = b"\x80\x04\x95&\x00\x00\x00\x00\x00\x00\x00\x8c\x08sklearn_\x94\x8c\x03SVC\x94\x93\x94)";
    for (bytes, what) in [
        (state_dict, "is a state_dict or checkpoint of torch.save"),
        (joblib, "is a Python pickle (sklearn_.SVC)"),
        (b"PK\x03\x04 cut off", "is damaged"),
        (b"", "is empty"),
    ] {
        fs::write(&file, bytes).unwrap();
        let (code, message) = check(&manifest);
        assert_eq!(code, Some(2), "{message}");
        let expected = format!("model file '{}' {what}", file.display());
        assert!(message.contains(&expected), "{message}");
    }
}

/// Checks a text for a cluster; returns the exit code and the output, which is either lines or errors.
fn check_for_cluster(text: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("service.yaml"), text).unwrap();
    let words = ["check", "--for", "kubernetes", "-f"];
    let output = Command::new(PROGRAM).args(words).arg(folder.path()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn stored(uri: &str) -> String {
    service("digits", &format!("    model:\n      modelFormat:\n        name: pytorch\n      storageUri: {uri}\n"))
}

#[test]
fn a_check_for_a_cluster_takes_what_a_cluster_can_have() {
    for uri in ["pvc://models/digits", "s3://models/digits", "hf://org/digits", "oci+native://registry/digits:1"] {
        let (code, text) = check_for_cluster(&stored(uri));
        assert_eq!((code, text.trim()), (Some(0), "default/digits: ok"), "{uri}");
    }
    let (code, text) = check_for_cluster(&stored("pvc://models/digits").replace("pytorch", "pmml"));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("note: unless the cluster has it: ") && text.contains("pmml"), "{text}");
}

#[test]
fn a_check_for_a_cluster_refuses_what_no_cluster_has() {
    for (uri, because) in [
        ("hdfs://name/digits", "is not fetched by Weir"),
        ("pvc://models/../digits", "remove `..`"),
        ("s3:///digits", "must name a bucket, as in s3://BUCKET/PATH"),
    ] {
        let (code, text) = check_for_cluster(&stored(uri));
        assert!(code == Some(2) && text.contains("service.yaml:10:7: ") && text.contains(because), "{text}");
    }
    let container = "
---
apiVersion: serving.kserve.io/v1alpha1
kind: ClusterStorageContainer
metadata:
  name: hadoop
spec:
  container:
    name: storage-initializer
    image: example/hadoop:1
  supportedUriFormats:
  - prefix: hdfs://
";
    let (code, text) = check_for_cluster(&(stored("hdfs://name/digits") + container));
    assert_eq!((code, text.trim()), (Some(0), "default/digits: ok"));
}

/// Checks a folder for a cluster, and looks for its models; returns the exit code, the output and the errors.
fn check_online(folder: &Path) -> (Option<i32>, String, String) {
    let words = ["check", "--for", "kubernetes", "--online", "-f"];
    let output = Command::new(PROGRAM).args(words).arg(folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn models_are_looked_for_without_a_download() {
    let url = crate::fetching::server(vec![7; 3_600_000]);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, uri: &str| {
        let predictor = format!("    model:\n      modelFormat: {{name: pytorch}}\n      storageUri: {uri}\n");
        fs::write(folder.path().join(format!("{name}.yaml")), service(name, &predictor)).unwrap();
    };
    write("there", &format!("{url}/model.pt?signature=secret"));
    write("volume", "pvc://models/digits");
    let (code, output, errors) = check_online(folder.path());
    assert_eq!((code, &*errors), (Some(0), ""));
    assert_eq!(output, format!("default/there: ok\n  model: {url}/model.pt: 1 file, 3.6 MB\ndefault/volume: ok\n"));
    write("gone", &format!("{url}/missing.zip"));
    let (code, output, errors) = check_online(folder.path());
    assert_eq!((code, &*output), (Some(2), ""));
    let at = format!("{}/gone.yaml:9:", folder.path().display());
    assert!(errors.starts_with(&at), "{errors}");
    assert!(
        errors.contains(&format!(" spec.predictor.model.storageUri: {url}/missing.zip answered 404: ")),
        "{errors}"
    );
}
