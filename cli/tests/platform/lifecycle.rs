//! One service, from its first request to the end of the process.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::http::send;
use crate::load::Load;
use crate::manifest::{NAME, Service};
use crate::weir::{PROGRAM, Weir};

/// Number of HTTP clients with which a split is measured.
const CLIENTS: usize = 8;

#[test]
fn a_service_is_reached_sleeps_wakes_and_is_rolled_out_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, Service::new("one").yaml()).unwrap();
    let mut weir = Weir::up(&file, folder.path(), &[]);
    weir.wait_for("ready", |service| service["ready"] == "True");
    reached_in_three_ways(&weir);
    weir.wait_for("asleep", |service| replicas(service, 0) == (0, 0));
    let (status, text) = infer(&weir);
    assert!(status == 200 && text.contains("\"one\""), "{text}");
    commands_reach_it(&weir, folder.path());
    canary(&weir, &file);
    assert!(weir.output().contains("default/echo is ready. Try:"));
    let ended = weir.stop();
    assert_eq!(ended.code(), Some(0), "{}", weir.output());
}

fn infer(weir: &Weir) -> (u16, String) {
    send(weir.serving, "localhost", "POST", "/v2/models/echo/infer")
}

fn reached_in_three_ways(weir: &Weir) {
    let path = "/v2/models/echo/infer";
    let long = format!("/serving/default/{NAME}{path}");
    let ways = [("echo-default.example.com", path), ("localhost", &long), ("localhost", path)];
    for (host, path) in ways {
        let (status, text) = send(weir.serving, host, "POST", path);
        assert!(status == 200 && text.contains("\"one\""), "{host}{path}: {text}");
        assert!(text.contains("echo-predictor-00001"), "{text}");
    }
    let (status, text) = send(weir.serving, "localhost", "POST", "/v2/models/other/infer");
    assert_eq!(status, 404, "{text}");
}

fn commands_reach_it(weir: &Weir, folder: &Path) {
    let table = weir.run(&["status"]);
    assert_eq!(table.status.code(), Some(0));
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(text.contains("default/echo"), "{text}");
    assert!(text.contains("echo-predictor-00001"), "{text}");
    let request = folder.join("request.json");
    fs::write(&request, r#"{"inputs": []}"#).unwrap();
    let request = request.display().to_string();
    let answer = weir.run(&["infer", NAME, "--json", &request]);
    let mut piped = Command::new(PROGRAM);
    piped.args(["infer", NAME, "--json", "-", "--state-dir"]);
    piped.arg(weir.state()).stdin(File::open(&request).unwrap());
    for answer in [answer, piped.output().unwrap()] {
        let text = String::from_utf8(answer.stdout).unwrap();
        assert!(text.starts_with("label BYTES [1]: \"one\"\n"), "{text}");
    }
}

fn canary(weir: &Weir, file: &Path) {
    fs::write(file, Service::new("two").canary(20).yaml()).unwrap();
    weir.wait_for("the canary's share", |service| traffic(service, 0) == 80.0 && traffic(service, 1) == 20.0);
    weir.wait_for_share("echo-predictor-00002", 20);
    Load::start(weir.serving, CLIENTS, 0).splits_to("echo-predictor-00002");
    fs::write(file, Service::new("two").canary(0).yaml()).unwrap();
    weir.wait_for("rolled back", |service| traffic(service, 0) == 100.0 && traffic(service, 1) == 0.0);
    weir.wait_for_share("echo-predictor-00001", 100);
    Load::start(weir.serving, CLIENTS, 0).go_all_to("echo-predictor-00001");
}

/// Returns the ready and the desired replicas of a revision.
fn replicas(service: &Value, index: usize) -> (u64, u64) {
    let revision = &service["revisions"][index];
    let count = |key: &str| revision[key].as_u64().unwrap_or(u64::MAX);
    (count("ready"), count("wanted"))
}

fn traffic(service: &Value, index: usize) -> f64 {
    let percent = &service["revisions"][index]["traffic_percent"];
    percent.as_f64().unwrap_or(-1.0)
}
