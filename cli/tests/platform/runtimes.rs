//! Processes of the real model server are killed under load, and no request fails. The model echoes its input after a
//! delay that uses no processor, so that the replicas do not compete for few cores.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::digits::runtime;
use crate::load::Load;
use crate::weir::Weir;

const REPLICAS: u32 = 4;

/// Number of kills, each of the oldest process.
const KILLS: u32 = 6;

/// Number of answers between two kills; the clients get them in about a second.
const ANSWERS: u64 = 400;

const MODEL: &str = r#"
name: "echo"
backend: "echo"
max_batch_size: 4
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
parameters { key: "service_time_ms" value { string_value: "20" } }
dynamic_batching { }
"#;

#[test]
fn killed_runtimes_fail_no_request() {
    let Some(runtime) = runtime() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = declare(folder.path());
    let weir = Weir::up(&file, folder.path(), &["--runtime", &runtime]);
    let all_serve = |service: &serde_json::Value| service["revisions"][0]["ready"] == REPLICAS;
    weir.wait_for("all of them", all_serve);
    let load = Load::start(weir.serving, 8, 4);
    for _ in 0..KILLS {
        kill_oldest(weir.id());
        load.wait_for_answers(ANSWERS, || weir.output());
    }
    let tally = load.end();
    assert_eq!(tally.failed, [""; 0], "{}", weir.output());
    assert!(tally.total() > 100, "{tally:?}");
    weir.wait_for("all of them again", all_serve);
}

/// Writes a service with this model; returns the path of the manifest.
fn declare(folder: &Path) -> std::path::PathBuf {
    let model = folder.join("models/echo");
    fs::create_dir_all(model.join("1")).unwrap();
    fs::write(model.join("config.pbtxt"), MODEL).unwrap();
    let manifest = format!(
        "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: echo
spec:
  predictor:
    minReplicas: {REPLICAS}
    maxReplicas: {REPLICAS}
    model:
      modelFormat:
        name: pytorch
      protocolVersion: v2
      storageUri: file://{}
",
        model.display()
    );
    let file = folder.join("echo.yaml");
    fs::write(&file, manifest).unwrap();
    file
}

fn kill_oldest(weir: u32) {
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children"));
    let threads = fs::read_dir(format!("/proc/{weir}/task")).unwrap();
    let children = threads.filter_map(|thread| of_thread(thread.unwrap()).ok());
    let children: Vec<String> = children.collect();
    let pids = children.iter().flat_map(|list| list.split_whitespace());
    let oldest: i32 = pids.map(|pid| pid.parse().unwrap()).min().unwrap();
    kill_process(Pid::from_raw(oldest).unwrap(), Signal::KILL).unwrap();
}
