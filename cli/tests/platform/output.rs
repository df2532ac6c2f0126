//! Standard output and standard error that cannot be written.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use crate::fixture::Fixture;
use crate::manifest::Service;
use crate::weir::{PROGRAM, wait_for_exit};

/// Opens a device that is always full.
fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// Checks a manifest; `redirect` replaces an output of the command.
fn check(yaml: &str, redirect: impl FnOnce(&mut Command)) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, yaml).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["check", "--runtime", "/bin/true", "-f"]);
    command.arg(file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    redirect(&mut command);
    command.spawn().unwrap().wait_with_output().unwrap()
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let output = check(&Service::new("one").yaml(), |command| {
        command.stdout(full());
    });
    let message = String::from_utf8(output.stderr).unwrap();
    let begin = "error: cannot write to the standard output: No space left on device";
    assert!(message.starts_with(begin), "{message}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_message_that_cannot_be_written_changes_no_exit_code() {
    let output = check("kind: Nothing", |command| {
        command.stderr(full());
    });
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_watched_status_ends_with_its_reader() {
    let fixture = Fixture::ready(1, |_| Service::new("one").replicas(1, 1));
    let mut watching = Command::new(PROGRAM)
        .args(["status", "--watch", "--state-dir"])
        .arg(fixture.weir.state())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut output = BufReader::new(watching.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    assert!(first.starts_with("SERVICE"), "{first}");
    drop(output);
    fixture.edit(&Service::new("two").replicas(1, 1));
    wait_for_exit(&mut watching, || fixture.weir.output());
}
