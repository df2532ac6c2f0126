//! Child processes die with their parent, even if the parent is killed and cannot act.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use weir_cluster::Directory;

use crate::platform::{Platform, is_alive, options, process_of, wait_until};
use crate::pods;
use crate::server::{self, Behaviour};

/// Variable that makes this binary act as the parent; its value is the state directory.
const STATE: &str = "WEIR_TEST_PARENT";

/// Prefix of the line in which the parent prints the ids of its child processes.
const PROCESSES: &str = "processes: ";

/// Acts as the parent if the variable is set; otherwise passes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn be_parent() {
    let Some(state) = std::env::var_os(STATE) else {
        return;
    };
    let platform = Platform {
        cluster: weir_cluster_local::Local::start(options(Path::new(&state))).unwrap(),
        folder: tempfile::tempdir().unwrap(),
    };
    // The shell starts a grandchild, which must die as well.
    let pod = pods::server_after("sleep 1000 & echo $! > grandchild", Behaviour::Ready);
    let mut pod = pods::template(pod);
    pod.spec.as_mut().unwrap().containers[0].working_dir = state.to_str().map(str::to_owned);
    let name = platform.serve("orphan", pod, 1).await;
    let revision = platform.ready(&name, 1).await;
    let child = process_of(&revision, 0).await;
    let grandchild = std::fs::read_to_string(Path::new(&state).join("grandchild")).unwrap();
    println!("{PROCESSES}{child} {}", grandchild.trim());
    // Runs until the parent or the test is killed.
    let mut snapshots = platform.cluster.watch();
    while snapshots.changed().await.is_ok() {}
}

fn start_parent(state: &Path) -> (Child, Vec<i32>) {
    let this = std::env::current_exe().unwrap();
    let mut parent = Command::new(this)
        .args(["--exact", "parent::be_parent", "--nocapture"])
        .env(STATE, state)
        .env_remove(server::BEHAVIOUR)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(parent.stdout.take().unwrap());
    let lines = output.lines().map_while(Result::ok);
    let line = lines.filter_map(|line| {
        let (_, processes) = line.split_once(PROCESSES)?;
        Some(processes.to_owned())
    });
    let line = line.take(1).next().expect("the parent serves");
    let processes = line.split(' ').map(|id| id.parse().unwrap()).collect();
    (parent, processes)
}

#[tokio::test]
async fn children_and_grandchildren_die_with_a_killed_parent() {
    let folder = tempfile::tempdir().unwrap();
    let (mut parent, processes) = start_parent(folder.path());
    assert_eq!(processes.len(), 2);
    assert!(processes.iter().all(|process| is_alive(*process)));
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("the children's end", || !processes.iter().any(|p| is_alive(*p))).await;
}

#[tokio::test]
async fn children_die_with_the_last_handle() {
    let platform = Platform::start();
    let pod = pods::template(pods::server(Behaviour::Ready));
    let name = platform.serve("dropped", pod, 1).await;
    let process = process_of(&platform.ready(&name, 1).await, 0).await;
    drop(platform);
    wait_until("the child's end", || !is_alive(process)).await;
}
