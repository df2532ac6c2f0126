//! `weir logs` and `weir check`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::fixture::Fixture;
use crate::manifest::Service;
use crate::torch::{folder_of, manifest, uri};
use crate::weir::{PROGRAM, wait_until};

/// Returns a service whose replicas print two lines and then wait.
fn talkative(line: &str) -> Service {
    let script = format!("echo {line} one; echo {line} two >&2; exec sleep 300");
    Service::new("one").replicas(1, 1).shell(&format!("{script} # $(PORT)"))
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_logs_of_a_service_are_shown_while_it_runs_and_afterwards() {
    let mut fixture = Fixture::new(|_| talkative("hello"));
    let logs = |fixture: &Fixture, words: &[&str]| texts(&fixture.weir.run(&[&["logs", "echo"], words].concat()));
    let has_two = || logs(&fixture, &[]).1.lines().count() == 2;
    wait_until("two lines", has_two, || fixture.weir.output());
    let (code, out, _) = logs(&fixture, &[]);
    assert_eq!(code, Some(0));
    for line in ["one", "two"] {
        let line = format!("echo-predictor-00001-0 | hello {line}\n");
        assert!(out.contains(&line), "{out}");
    }
    assert_eq!(logs(&fixture, &["--tail", "1"]).1.lines().count(), 1);
    let (code, _, message) = texts(&fixture.weir.run(&["logs", "ecko"]));
    assert_eq!(code, Some(2));
    assert!(message.contains("did you mean default/echo? known services: default/echo"), "{message}");
    fixture.weir.stop();
    assert!(logs(&fixture, &[]).1.contains("hello one"));
}

#[test]
fn logs_are_followed_to_the_next_revision() {
    let fixture = Fixture::new(|_| talkative("first"));
    let has_logs = || texts(&fixture.weir.run(&["logs", "echo"])).0 == Some(0);
    wait_until("a log", has_logs, || fixture.weir.output());
    let mut following = Command::new(PROGRAM)
        .args(["logs", "default/echo", "-f", "--state-dir"])
        .arg(fixture.weir.state())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = |wanted: &str| {
        let mut lines = lines.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(wanted)).unwrap()
    };
    assert!(next("first").starts_with("echo-predictor-00001-0 | "));
    fixture.edit(&talkative("second"));
    assert!(next("second").starts_with("echo-predictor-00002-0 | "));
    following.kill().unwrap();
    following.wait().unwrap();
}

fn check(file: &Path) -> (Option<i32>, String, String) {
    // Any program can be the runtime, because none is started.
    let mut command = Command::new(PROGRAM);
    command.args(["check", "--runtime", "/bin/true", "-f"]).arg(file);
    texts(&command.output().unwrap())
}

#[test]
fn a_check_reports_what_up_would_report_without_running_it() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder_of(&folder.path().join("model"), &["model.pt"]);
    let file = folder.path().join("net.yaml");
    let fine = manifest("net", &uri(&model), "");
    fs::write(&file, &fine).unwrap();
    assert_eq!(check(&file), (Some(0), "default/net: ok\n".to_owned(), String::new()));
    let noted = fine.replace("minReplicas: 1", "tolerations: [{key: gpu}]\n    logger: {mode: all}");
    fs::write(&file, noted).unwrap();
    let (code, out, message) = check(&file);
    assert_eq!(code, Some(0), "{message}");
    assert!(out.contains("note: no effect on this machine: tolerations"), "{out}");
    let place = format!("note: {}:8:5: spec.predictor.logger: no effect: ", file.display());
    assert!(out.contains(&place), "{out}");
    fs::write(&file, fine.replace("minReplicas", "minReplica")).unwrap();
    let (code, _, message) = check(&file);
    let expected = format!("{}:7:5: spec.predictor.minReplica: unknown field", file.display());
    assert!(code == Some(2) && message.starts_with(&expected), "{message}");
    fs::write(&file, manifest("net", "file:///no/such", "")).unwrap();
    let (code, _, message) = check(&file);
    assert_eq!(code, Some(2));
    assert!(message.contains("spec.predictor: /no/such is missing: put the files of"), "{message}");
    let empty = folder_of(&folder.path().join("named"), &["1/mymodel.pt"]);
    fs::write(&file, manifest("net", &uri(&empty), "")).unwrap();
    let (code, _, message) = check(&file);
    assert!(code == Some(2) && message.contains("spec.predictor: no model in "), "{message}");
    fs::write(&file, "").unwrap();
    let (code, _, message) = check(&file);
    assert!(code == Some(2) && message.contains("no InferenceService found"), "{message}");
}

#[test]
fn make_up_takes_a_port() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let make = |words: &[&str]| {
        let mut command = Command::new("make");
        command.args(["-n", "--no-print-directory", "up"]);
        command.args(words).current_dir(&root);
        // If `make` runs this test, its variables must not change the output of this `make`.
        command.env_remove("PORT").env_remove("ADMIN_PORT");
        command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        texts(&command.output().unwrap()).1
    };
    let up = "target/release/weir up -f examples/digits";
    assert!(make(&[]).trim_end().ends_with(up), "{}", make(&[]));
    let chosen = make(&["PORT=8123"]);
    assert!(chosen.contains(&format!("{up} --port 8123")), "{chosen}");
}
