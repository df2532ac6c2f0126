//! Start, restart and end of replicas.

use std::time::Duration;

use serde_json::json;
use weir_cluster::{Address, Apply, Directory, Phase, Revision};

use crate::platform::{DEADLINE, Platform, is_alive, kill, phases, process_of, wait_until};
use crate::pods;
use crate::server::Behaviour;

#[tokio::test]
async fn a_killed_replica_comes_back_and_the_other_stays() {
    let platform = Platform::start();
    let pod = pods::template(pods::server(Behaviour::Ready));
    let name = platform.serve("killed", pod, 2).await;
    let before = platform.ready(&name, 2).await;
    let (victim, other) = (process_of(&before, 0).await, process_of(&before, 1).await);
    kill(victim);
    let restarted = |r: &Revision| r.ready().count() == 2 && r.replicas[0].restarts == 1;
    let after = platform.see(&name, "a restart", restarted).await;
    assert_ne!(process_of(&after, 0).await, victim);
    assert_eq!(process_of(&after, 1).await, other);
    assert_eq!(after.replicas[0].name, before.replicas[0].name);
    assert_eq!(after.failure, None);
}

#[tokio::test]
async fn a_replica_is_terminating_in_the_snapshot_before_it_gets_sigterm() {
    let platform = Platform::start();
    let mut pod = pods::server(Behaviour::Ready);
    pod["lifecycle"] = json!({ "preStop": { "sleep": { "seconds": 1 } } });
    let name = platform.serve("drained", pods::template(pod), 1).await;
    let before = platform.ready(&name, 1).await;
    platform.scale(&name, 0).await;
    let revision = platform.see(&name, "the end", |_| true).await;
    assert_eq!(phases(&revision), [Phase::Terminating]);
    assert!(revision.is_at_zero());
    // The replica still serves: requests sent before the gateways saw the new snapshot are answered.
    process_of(&before, 0).await;
    platform.ready(&name, 0).await;
}

#[tokio::test]
async fn a_replica_that_ignores_sigterm_is_killed_after_its_grace_period() {
    let platform = Platform::start();
    let server = pods::server_after("trap '' TERM", Behaviour::Ready);
    let mut pod = pods::template(server);
    pod.spec.as_mut().unwrap().termination_grace_period_seconds = Some(1);
    let name = platform.serve("stubborn", pod, 1).await;
    let process = process_of(&platform.ready(&name, 1).await, 0).await;
    platform.scale(&name, 0).await;
    platform.ready(&name, 0).await;
    assert!(!is_alive(process));
}

#[tokio::test]
async fn descendants_of_a_replica_end_with_it() {
    let platform = Platform::start();
    let mut pod = pods::server_after("sleep 1000 & echo $! > grandchild", Behaviour::Ready);
    pod["workingDir"] = json!(platform.folder.path());
    let name = platform.serve("forks", pods::template(pod), 1).await;
    platform.ready(&name, 1).await;
    let grandchild = std::fs::read_to_string(platform.folder.path().join("grandchild")).unwrap();
    let grandchild = grandchild.trim().parse().unwrap();
    assert!(is_alive(grandchild));
    platform.scale(&name, 0).await;
    platform.ready(&name, 0).await;
    wait_until("the grandchild's end", || !is_alive(grandchild)).await;
}

#[tokio::test]
async fn a_command_without_variables_has_one_replica_at_its_own_port() {
    let platform = Platform::start();
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut pod = pods::server(Behaviour::Ready);
    pod["env"].as_array_mut().unwrap().pop();
    pod["ports"] = json!([{ "containerPort": port }]);
    let name = platform.serve("fixed", pods::template(pod), 3).await;
    let revision = platform.ready(&name, 1).await;
    assert_eq!(revision.desired, 3);
    let address = Address::from(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
    assert_eq!(revision.replicas[0].endpoints.http, Some(address));
    assert_eq!(revision.replicas[0].endpoints.grpc, None);
}

#[tokio::test]
async fn output_is_written_to_the_log_file() {
    let platform = Platform::start();
    let pod = pods::server_after("echo hello; echo world >&2", Behaviour::Ready);
    let name = platform.serve("logged", pods::template(pod), 1).await;
    let revision = platform.ready(&name, 1).await;
    let file = format!("logs/{}.log", revision.replicas[0].name);
    let text = std::fs::read_to_string(platform.folder.path().join(file)).unwrap();
    for part in ["hello\n", "world\n", "serving on"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[tokio::test]
async fn stopping_lets_replicas_finish_and_then_nothing_starts() {
    let platform = Platform::start();
    let pod = pods::template(pods::server(Behaviour::Ready));
    let name = platform.serve("stopped", pod.clone(), 2).await;
    let process = process_of(&platform.ready(&name, 2).await, 0).await;
    platform.cluster.stop(DEADLINE).await.unwrap();
    assert!(!is_alive(process));
    assert!(platform.cluster.watch().borrow().revisions.is_empty());
    let desired = pods::desired(pods::workload("late", pod, 1));
    let error = platform.cluster.apply(desired).await.unwrap_err();
    assert_eq!(error.to_string(), "the cluster on this machine is not available");
}

#[tokio::test]
async fn stopping_waits_for_the_longest_grace_period() {
    let platform = Platform::start();
    let mut pod = pods::template(pods::server_after("trap '' TERM", Behaviour::Ready));
    pod.spec.as_mut().unwrap().termination_grace_period_seconds = Some(3);
    let name = platform.serve("slow", pod, 1).await;
    let process = process_of(&platform.ready(&name, 1).await, 0).await;
    platform.cluster.stop(Duration::from_secs(2)).await.unwrap();
    assert!(!is_alive(process));
}
