//! Errors of `weir up`: messages and exit codes.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::manifest::Service;
use crate::weir::{PROGRAM, Weir, wait_for_exit};

fn up(program: &Path, file: &Path, more: &[&str]) -> (Option<i32>, String) {
    let folder = file.parent().unwrap();
    let log = folder.join("refusal.log");
    let mut process = Command::new(program)
        .args(["up", "--admin-port", "0", "-f"])
        .arg(file)
        .arg("--state-dir")
        .arg(folder.join("state"))
        .args(more)
        .env("PATH", "/bin")
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let message = || fs::read_to_string(&log).unwrap();
    let status = wait_for_exit(&mut process, message);
    (status.code(), message())
}

#[test]
fn an_error_in_yaml_is_reported_with_its_location() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    let text = Service::new("one").yaml().replace("minReplicas", "minReplica");
    fs::write(&file, text).unwrap();
    let (code, message) = up(Path::new(PROGRAM), &file, &["--port", "0"]);
    let expected =
        format!("{}:8:5: spec.predictor.minReplica: unknown field; did you mean `minReplicas`?\n", file.display());
    assert_eq!((code, message), (Some(2), expected));
}

#[test]
fn an_invalid_service_is_reported_with_its_location() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    let text = Service::new("one").yaml().replace("minReplicas: 0", "minReplicas: -1");
    fs::write(&file, text).unwrap();
    let (code, message) = up(Path::new(PROGRAM), &file, &["--port", "0"]);
    let place = format!("{}:8:5: spec.predictor.minReplicas: ", file.display());
    assert!(code == Some(2) && message.starts_with(&place), "{message}");
}

#[test]
fn a_missing_path_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.yaml");
    let (code, message) = up(Path::new(PROGRAM), &file, &["--port", "0"]);
    assert!(code == Some(2) && message.contains("none.yaml"), "{message}");
}

#[test]
fn an_address_of_another_machine_is_reported_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, Service::new("one").yaml()).unwrap();
    // The address is from the block for documentation, which no machine has.
    let address = ["--port", "0", "--address", "192.0.2.1"];
    let (code, message) = up(Path::new(PROGRAM), &file, &address);
    let begin = "error: cannot listen on 192.0.2.1:0 (--port): ";
    assert!(code == Some(1) && message.starts_with(begin), "{message}");
    assert!(message.contains("0.0.0.0 means all"), "{message}");
}

#[test]
fn a_url_given_as_a_path_is_answered_with_a_command_to_read_it() {
    let process =
        Command::new(PROGRAM).args(["check", "-f", "https://models.example.com/digits.yaml"]).output().unwrap();
    let message = String::from_utf8_lossy(&process.stderr).into_owned();
    assert_eq!(process.status.code(), Some(2), "{message}");
    assert_eq!(
        message,
        "error: -f takes a file, a folder or -, not a URL: to read https://models.example.com/digits.yaml, \
         run `curl -fsSL https://models.example.com/digits.yaml` and pipe it to this command with -f -\n"
    );
}

#[test]
fn without_a_cluster_a_process_says_how_it_finds_one() {
    let folder = tempfile::tempdir().unwrap();
    let process = Command::new(PROGRAM)
        .args(["gateway", "--port", "0", "--admin-port", "0"])
        .env_clear()
        .env("HOME", folder.path())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&process.stderr).into_owned();
    assert_eq!(process.status.code(), Some(1), "{message}");
    let begin = "error: a Kubernetes cluster is not available: ";
    assert!(message.starts_with(begin), "{message}");
    assert!(message.contains("set KUBECONFIG to"), "{message}");
    // The text appears once, not again for each cause of the error.
    assert_eq!(message.matches("kubeconfig: (").count(), 1, "{message}");
    assert_eq!(message.matches("No such file").count(), 1, "{message}");
}

#[test]
fn a_port_in_use_is_reported_with_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, Service::new("one").yaml()).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, message) = up(Path::new(PROGRAM), &file, &["--port", &port]);
    let begin = format!("error: port {port} is in use by another process (--port).");
    assert!(code == Some(3) && message.starts_with(&begin), "{message}");
}

#[test]
fn a_state_directory_is_locked_until_its_platform_ends_or_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, Service::new("one").yaml()).unwrap();
    let mut first = Weir::up(&file, folder.path(), &[]);
    let admin = folder.path().join("state/admin.json");
    let before = fs::read_to_string(&admin).unwrap();
    let (code, message) = up(Path::new(PROGRAM), &file, &["--port", "0"]);
    let expected = format!(
        "error: the state directory {} is in use by another `weir up` (process {}): stop that one, or set \
         another directory with --state-dir\n",
        folder.path().join("state").display(),
        first.id()
    );
    assert_eq!((code, message), (Some(1), expected));
    assert_eq!(fs::read_to_string(&admin).unwrap(), before);
    first.kill();
    fs::remove_file(&admin).unwrap();
    let mut second = Weir::up(&file, folder.path(), &[]);
    assert_eq!(second.stop().code(), Some(0), "{}", second.output());
}

#[test]
fn an_image_without_a_command_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    let text = Service::new("one").yaml();
    let lines =
        text.lines().map(|line| if line.trim().starts_with("command:") { "        image: triton:24.01" } else { line });
    fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let (code, message) = up(Path::new(PROGRAM), &file, &["--port", "0"]);
    let expected = format!(
        "{}:7:3: spec.predictor: cannot run the image \"triton:24.01\" without Kubernetes; give the \
         container a command\n",
        file.display()
    );
    assert_eq!((code, message), (Some(2), expected));
}

#[test]
fn a_missing_model_is_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net.yaml");
    let text = "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: net}
spec:
  predictor:
    model: {modelFormat: {name: pytorch}}
";
    fs::write(&file, text).unwrap();
    let more = ["--port", "0", "--runtime", "/bin/true"];
    let (code, message) = up(Path::new(PROGRAM), &file, &more);
    let begin =
        format!("{}:5:3: spec.predictor: nothing says where the model is: write its storageUri", file.display());
    assert!(code == Some(2) && message.starts_with(&begin), "{message}");
}

#[test]
fn a_wrong_port_of_a_pod_is_reported_with_its_location() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    let text = Service::new("one").yaml();
    let ports = "        ports:\n        - containerPort: 99999\n        command:";
    fs::write(&file, text.replace("        command:", ports)).unwrap();
    let (code, message) = up(Path::new(PROGRAM), &file, &["--port", "0"]);
    let expected = format!(
        "{}:13:11: spec.predictor.containers[0].ports[0].containerPort: 99999 is no port: write a \
         number from 1 to 65535\n",
        file.display()
    );
    assert_eq!((code, message), (Some(2), expected));
}

#[test]
fn one_service_that_is_declared_twice_is_reported_with_both_locations() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("services");
    fs::create_dir(&files).unwrap();
    for name in ["a.yaml", "b.yaml"] {
        fs::write(files.join(name), Service::new("one").yaml()).unwrap();
    }
    let (code, message) = up(Path::new(PROGRAM), &files, &["--port", "0"]);
    let expected = format!(
        "{0}/b.yaml:4:3: the InferenceService default/echo is declared twice; the first is at \
         {0}/a.yaml:4:3\n",
        files.display()
    );
    assert_eq!((code, message), (Some(2), expected));
}

#[test]
fn a_state_directory_that_cannot_be_made_is_reported_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, Service::new("one").yaml()).unwrap();
    // A file stands in the place of the directory.
    fs::write(folder.path().join("state"), "").unwrap();
    let (code, message) = up(Path::new(PROGRAM), &file, &["--port", "0"]);
    let begin = format!("error: the state directory {}/state is not available: ", folder.path().display());
    assert!(code == Some(1) && message.starts_with(&begin), "{message}");
    assert!(message.contains("File exists"), "{message}");
    assert!(message.ends_with(". Set another one with --state-dir\n"), "{message}");
}

#[test]
fn a_missing_runtime_is_reported_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    // The program is alone in a folder, because it looks for the runtime in its own folder first.
    let weir = folder.path().join("weir");
    if fs::hard_link(PROGRAM, &weir).is_err() {
        fs::copy(PROGRAM, &weir).unwrap();
    }
    let file = folder.path().join("digits.yaml");
    let text = "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: digits}
spec: {predictor: {model: {modelFormat: {name: pytorch}, storageUri: 'pvc://models/digits'}}}
";
    fs::write(&file, text).unwrap();
    let (code, message) = up(&weir, &file, &["--port", "0"]);
    assert!(code == Some(1) && message.starts_with("error: weir-runtime not found"), "{message}");
    let (code, message) = up(&weir, &file, &["--port", "0", "--runtime", "/no/such"]);
    let expected = "error: --runtime /no/such: no such program\n";
    assert_eq!((code, message.as_str()), (Some(2), expected));
    let text = file.to_str().unwrap();
    let (code, message) = up(&weir, &file, &["--port", "0", "--runtime", text]);
    let expected = format!("error: --runtime {text}: it is not executable: run chmod +x on it, or name another\n");
    assert_eq!((code, message), (Some(2), expected));
}
