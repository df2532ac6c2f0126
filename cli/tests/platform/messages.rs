//! Common mistakes of users, and the messages that they get.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::fixture::Fixture;
use crate::manifest::Service;
use crate::torch::{manifest, model_file, uri};
use crate::weir::{PROGRAM, Weir, wait_until};

/// Runs a command that must fail; returns its exit code and message.
fn fails(words: &[&str]) -> (Option<i32>, String) {
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(words).env("WEIR_STATE_DIR", empty.path());
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), message)
}

/// Returns a port on which nothing listens.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn a_model_file_given_as_a_manifest_is_answered_with_a_manifest() {
    let model = model_file().canonicalize().unwrap();
    for command in ["up", "check"] {
        let (code, message) = fails(&[command, "-f", model.to_str().unwrap()]);
        assert_eq!(code, Some(2), "{message}");
        let begin = format!("{}: a model file, and -f takes YAML. To serve it, ", model.display());
        assert!(message.starts_with(&begin), "{message}");
        let uri = format!("storageUri: \"file://{}\"", model.display());
        assert!(message.contains(&uri), "{message}");
    }
    // The manifest in the message must itself be valid.
    let (_, message) = fails(&["check", "-f", model.to_str().unwrap()]);
    let yaml = message.find("apiVersion").map(|at| &message[at..]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("service.yaml");
    fs::write(&file, yaml).unwrap();
    let words = ["check", "--runtime", "/bin/true", "-f", file.to_str().unwrap()];
    assert_eq!(fails(&words), (Some(0), String::new()));
}

#[test]
fn a_binary_file_and_a_model_of_another_format_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (code, message) = fails(&["up", "-f", &file("a.gguf", b"GGUF")]);
    assert!(code == Some(2) && message.contains("a model file"), "{message}");
    assert!(message.contains("save a PyTorch model with torch.export.save"), "{message}");
    let (code, message) = fails(&["up", "-f", &file("a.yaml", b"\xff\xfe\x00")]);
    assert!(code == Some(2) && message.contains("not YAML, as it is no UTF-8 text"), "{message}");
}

#[test]
fn an_unsupported_format_is_answered_with_the_supported_ones() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("service.yaml");
    let yaml = manifest("net", "file:///models/net", "");
    let refusal = |yaml: String| {
        fs::write(&file, yaml).unwrap();
        let (code, message) = fails(&["check", "-f", file.to_str().unwrap()]);
        assert_eq!(code, Some(2), "{message}");
        message
    };
    let message = refusal(yaml.replace("pytorch", "pmml"));
    let works =
        "formats that work here: echo, onnx, pytorch, torchscript, triton. Save a PyTorch model with torch.export.save";
    assert!(message.contains(works), "{message}");
    let message = refusal(yaml.replace("name: pytorch", "name: pytorch\n        version: '9'"));
    assert!(message.contains("pytorch is served as "), "{message}");
    assert!(message.contains("version 1, version 2"), "{message}");
}

#[test]
fn the_same_port_given_twice_is_not_reported_as_taken_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, Service::new("one").yaml()).unwrap();
    let port = free_port().to_string();
    let file = file.to_str().unwrap();
    let (code, message) = fails(&["up", "-f", file, "--port", &port, "--admin-port", &port]);
    let expected = format!("error: --port and --admin-port are both {port}: give one of them another port\n");
    assert_eq!((code, message), (Some(2), expected));
}

#[test]
fn a_url_without_a_scheme_is_completed_and_an_empty_port_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let request = folder.path().join("request.json");
    fs::write(&request, r#"{"inputs": []}"#).unwrap();
    let request = request.to_str().unwrap();
    let infer = |url: &str| fails(&["infer", "digits", "--json", request, "--url", url]);
    let (code, message) = infer("localhost:8080");
    let expected = "error: --url localhost:8080 needs the scheme http or https: write --url http://localhost:8080\n";
    assert_eq!((code, message.as_str()), (Some(2), expected));
    let address = format!("127.0.0.1:{}", free_port());
    let (code, message) = infer(&format!("http://{address}"));
    let begin = format!("error: nothing listens on {address}: start it with `weir up -f FILE`, or ");
    assert!(code == Some(1) && message.starts_with(&begin), "{message}");
}

#[test]
fn a_timeout_says_where_to_find_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let request = folder.path().join("request.json");
    fs::write(&request, r#"{"inputs": []}"#).unwrap();
    // The server accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let json = request.to_str().unwrap();
    let words = ["infer", "digits", "--json", json, "--url", &url];
    let (code, message) = fails(&[&words[..], &["--timeout", "1"]].concat());
    let expected = format!(
        "error: {url}/serving/default/digits/v2/models/digits/infer: no answer within 1 s. `weir status` says what \
         the service waits for, and --timeout waits longer\n"
    );
    assert_eq!((code, message), (Some(1), expected));
}

#[test]
fn an_empty_standard_input_is_named_in_the_error() {
    let (code, message) = fails(&["infer", "digits", "--json", "-", "--url", "http://localhost"]);
    let begin = "error: standard input: not JSON: ";
    assert!(code == Some(2) && message.starts_with(begin), "{message}");
}

#[test]
fn the_error_for_an_unknown_service_suggests_the_nearest_and_lists_all() {
    let fixture = Fixture::ready(1, |_| Service::new("one").replicas(1, 1));
    let request = fixture.shared.path().parent().unwrap().join("request.json");
    fs::write(&request, r#"{"inputs": []}"#).unwrap();
    let output = fixture.weir.run(&["infer", "ecko", "--json", request.to_str().unwrap()]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("did you mean \"default/echo\"?"), "{message}");
    assert!(message.trim_end().ends_with("known services: default/echo"), "{message}");
}

#[test]
fn a_missing_library_is_a_sentence_in_the_status() {
    // This is the message of the dynamic loader. A script prints it, because not every machine can build a program that
    // fails to load.
    let script = "echo /opt/weir-runtime: error while loading shared libraries: libtorch_cpu.so: cannot open shared \
                  object file: No such file or directory >&2; exit 127 # $(PORT)";
    let fixture = Fixture::new(|_| Service::new("one").replicas(1, 1).shell(script));
    fixture.wait_for_revision("the failure", 1, |revision| {
        let failure = revision["failure"].as_str().unwrap_or_default();
        failure.contains(
            "weir-runtime cannot start, as the shared library libtorch_cpu.so is missing: run `make libtorch`",
        )
    });
}

#[test]
fn an_unreachable_download_host_is_named_while_it_is_retried() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("service.yaml");
    let uri = format!("http://127.0.0.1:{}/net/model.pt", free_port());
    fs::write(&file, manifest("net", &uri, "")).unwrap();
    let weir = Weir::up(&file, folder.path(), &["--runtime", "/bin/true"]);
    let service = weir.wait_for("the failure", |service| {
        let failure = service["revisions"][0]["failure"].as_str();
        service["ready"] == "False" && failure.is_some_and(|failure| failure.contains("(last tried at "))
    });
    let failure = service["revisions"][0]["failure"].as_str().unwrap();
    let expected = format!("{uri} could not be downloaded: the host 127.0.0.1 cannot be reached (Connection refused");
    assert!(failure.starts_with("StorageFailed: ") && failure.contains(&expected), "{failure}");
    let table = || String::from_utf8(weir.run(&["status"]).stdout).unwrap();
    wait_until("the table", || table().contains("cannot be reached"), table);
}

#[test]
fn a_metric_that_does_not_exist_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("service.yaml");
    let check = |name: &str, value: &str| {
        let annotation = format!("  annotations: {{autoscaling.knative.dev/{name}: '{value}'}}\n");
        let model = uri(&model_file());
        fs::write(&file, manifest("net", &model, &annotation)).unwrap();
        let words = ["check", "--runtime", "/bin/true", "-f", file.to_str().unwrap()];
        let output = Command::new(PROGRAM).args(words).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = check("metric", "latency");
    assert!(code == Some(2) && text.contains("concurrency, rps, cpu or memory"), "{text}");
    let (code, text) = check("target-utilization-percentage", "250");
    assert!(code == Some(2) && text.contains("above 0 and at most 100"), "{text}");
    let (code, text) = check("metric", "cpu");
    assert!(code == Some(0) && text.contains("replicas are scaled by queue delay"), "{text}");
    assert_eq!(check("metric", "rps").0, Some(0));
}

#[test]
fn manifests_can_come_from_standard_input_as_with_kubectl() {
    let check = |yaml: &str| {
        let mut command = Command::new(PROGRAM);
        command.args(["check", "--runtime", "/bin/true", "-f", "-"]);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(yaml.as_bytes()).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        let texts = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&texts).into_owned())
    };
    let yaml = manifest("net", &uri(&model_file()), "");
    let (code, text) = check(&yaml);
    assert_eq!((code, text.as_str()), (Some(0), "default/net: ok\n"), "{text}");
    let (code, text) = check(&yaml.replace("storageUri", "storageUrl"));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.starts_with("standard input:"), "{text}");
    assert!(text.contains("did you mean `storageUri`?"), "{text}");
}
