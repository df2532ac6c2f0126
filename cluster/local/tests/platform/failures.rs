//! Failures of replicas: each is reported in one sentence, and other replicas are not affected.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::Receiver;

use serde_json::json;
use weir_cluster::{Apply, ClusterError, FailureReason, Phase, Replica, Revision, Storage};

use crate::platform::{Platform, phases};
use crate::pods;
use crate::server::{self, Behaviour};

#[tokio::test]
async fn a_crash_loop_is_reported_with_the_last_lines_of_the_log() {
    let platform = Platform::start();
    let pod = pods::template(pods::shell("echo no such model; exit 7"));
    let name = platform.serve("crashes", pod, 1).await;
    let looping = |r: &Revision| {
        let reason = r.failure.as_ref().map(|failure| failure.reason);
        reason == Some(FailureReason::CrashLoopBackOff) && r.replicas[0].restarts >= 2
    };
    let revision = platform.see(&name, "a crash loop", looping).await;
    let message = revision.failure.as_ref().unwrap().message.to_string();
    assert!(message.starts_with("crashes-predictor-00001-0 exited with status 7 after "), "{message}");
    assert!(message.contains(": no such model (log: "), "{message}");
    assert!(revision.ready().next().is_none());
}

#[tokio::test]
async fn a_replica_that_fails_beside_a_ready_one_is_no_failure_of_the_revision() {
    let platform = Platform::start();
    let mut pod = pods::server_after("mkdir first || exit 7", Behaviour::Ready);
    pod["workingDir"] = json!(platform.folder.path());
    let name = platform.serve("halves", pods::template(pod), 2).await;
    let fails_beside = |r: &Revision| {
        let is_looping = |replica: &Replica| {
            let reason = replica.failure.as_ref().map(|failure| failure.reason);
            reason == Some(FailureReason::CrashLoopBackOff)
        };
        r.ready().count() == 1 && r.replicas.iter().any(is_looping)
    };
    let revision = platform.see(&name, "a failing replica", fails_beside).await;
    assert_eq!(revision.failure, None);
    platform.scale(&name, 1).await;
    let revision = platform.ready(&name, 1).await;
    assert_eq!(revision.failure, None);
}

#[tokio::test]
async fn a_replica_that_hangs_is_never_ready_and_does_not_affect_others() {
    let platform = Platform::start();
    let hangs = platform.serve("hangs", pods::template(pods::server(Behaviour::Hang)), 1).await;
    let fine = platform.serve("fine", pods::template(pods::server(Behaviour::Ready)), 1).await;
    platform.ready(&fine, 1).await;
    let message = platform.failure(&hangs, "is running but not ready").await;
    assert!(message.ends_with("no answer within 1s"), "{message}");
    let revision = platform.see(&hangs, "anything", |_| true).await;
    assert_eq!(phases(&revision), [Phase::Starting]);
    platform.scale(&hangs, 0).await;
    platform.ready(&hangs, 0).await;
}

#[tokio::test]
async fn a_replica_whose_probes_fail_becomes_unready() {
    let platform = Platform::start();
    let name = platform.serve("sickens", pods::template(pods::server(Behaviour::Sickens)), 1).await;
    platform.ready(&name, 1).await;
    let unready = |r: &Revision| r.in_phase(Phase::Unready).count() == 1;
    platform.see(&name, "an unready replica", unready).await;
}

/// Returns a pod with a liveness probe that runs every second and fails after two failures in a row.
fn with_liveness_probe(behaviour: Behaviour) -> serde_json::Value {
    let mut pod = pods::server(behaviour);
    pod["livenessProbe"] = json!({
        "httpGet": { "path": server::LIVE, "port": 8080 }, "periodSeconds": 1, "failureThreshold": 2,
    });
    pod
}

#[tokio::test]
async fn a_replica_that_freezes_is_killed_and_restarted() {
    let platform = Platform::start();
    let pod = pods::template(with_liveness_probe(Behaviour::Freezes));
    let name = platform.serve("freezes", pod, 1).await;
    platform.ready(&name, 1).await;
    let message = platform.failure(&name, "liveness probe").await;
    assert!(message.starts_with("freezes-predictor-00001-0 failed its liveness probe for "), "{message}");
    assert!(message.contains("(no answer within 1s) and was killed after "), "{message}");
    let again = |r: &Revision| r.ready().count() == 1 && r.replicas[0].restarts == 1;
    platform.see(&name, "a restart", again).await;
}

/// The first probe runs two seconds after the start, and two more follow at intervals of one second.
#[tokio::test]
async fn readiness_waits_for_its_initial_delay_and_its_successes_in_a_row() {
    let platform = Platform::start();
    let mut pod = pods::server(Behaviour::Ready);
    pod["readinessProbe"] = json!({
        "httpGet": { "path": server::LIVE, "port": 8080 },
        "initialDelaySeconds": 2, "successThreshold": 3, "periodSeconds": 1,
    });
    let name = platform.serve("patient", pods::template(pod), 1).await;
    platform.see(&name, "a start", |r: &Revision| r.in_phase(Phase::Starting).count() == 1).await;
    #[expect(clippy::disallowed_methods, reason = "the test measures how long a replica takes")]
    let started = tokio::time::Instant::now();
    platform.ready(&name, 1).await;
    assert!(started.elapsed() >= std::time::Duration::from_secs(3), "{:?}", started.elapsed());
}

/// The server answers 503 to its startup probe. The readiness probe, which would succeed, does not run meanwhile.
#[tokio::test]
async fn a_replica_whose_startup_probe_never_succeeds_is_never_ready_and_is_restarted() {
    let platform = Platform::start();
    let mut pod = pods::server(Behaviour::NeverReady);
    pod["startupProbe"] = json!({
        "httpGet": { "path": "/", "port": 8080 }, "periodSeconds": 1, "failureThreshold": 2,
    });
    pod["readinessProbe"] = json!({ "tcpSocket": { "port": 8080 } });
    let name = platform.serve("sluggish", pods::template(pod), 1).await;
    let message = platform.failure(&name, "startup probe").await;
    assert!(
        message.starts_with("sluggish-predictor-00001-0 failed its startup probe for 2 s (GET / answered 503) and")
    );
    let again = |r: &Revision| r.replicas[0].restarts == 1 && r.ready().count() == 0;
    platform.see(&name, "a restart", again).await;
}

#[tokio::test]
async fn readiness_is_probed_after_the_startup_probe_has_succeeded() {
    let platform = Platform::start();
    let mut pod = pods::server(Behaviour::Ready);
    pod["startupProbe"] = json!({ "httpGet": { "path": "/", "port": 8080 }, "initialDelaySeconds": 2 });
    let name = platform.serve("patient", pods::template(pod), 1).await;
    platform.see(&name, "a start", |r: &Revision| r.in_phase(Phase::Starting).count() == 1).await;
    #[expect(clippy::disallowed_methods, reason = "the test measures how long a replica takes")]
    let started = tokio::time::Instant::now();
    platform.ready(&name, 1).await;
    assert!(started.elapsed() >= std::time::Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_frozen_replica_that_ignores_sigterm_is_killed_and_restarted() {
    let platform = Platform::start();
    let mut pod = with_liveness_probe(Behaviour::Freezes);
    pod["command"] = pods::server_after("trap '' TERM", Behaviour::Freezes)["command"].clone();
    let mut pod = pods::template(pod);
    pod.spec.as_mut().unwrap().termination_grace_period_seconds = Some(1);
    let name = platform.serve("frozen", pod, 1).await;
    let message = platform.failure(&name, "liveness probe").await;
    assert!(message.contains(" and was killed after "), "{message}");
    let again = |r: &Revision| r.ready().count() == 1 && r.replicas[0].restarts == 1;
    platform.see(&name, "a restart", again).await;
}

#[tokio::test]
async fn a_busy_server_without_probes_stays_ready_and_is_not_restarted() {
    let platform = Platform::start();
    let pod = pods::template(pods::server(Behaviour::Busy));
    let name = platform.serve("busy", pod, 1).await;
    platform.ready(&name, 1).await;
    // The other server takes several probe periods to be found hung; meanwhile several probes of the busy server fail.
    let other = platform.serve("frozen", pods::template(with_liveness_probe(Behaviour::Freezes)), 1).await;
    platform.failure(&other, "liveness probe").await;
    let revision = platform.ready(&name, 1).await;
    assert_eq!((revision.replicas[0].restarts, revision.failure), (0, None));
}

#[tokio::test]
async fn a_live_replica_that_is_unready_for_a_while_is_not_restarted() {
    let platform = Platform::start();
    let pod = pods::template(with_liveness_probe(Behaviour::Pauses));
    let name = platform.serve("pauses", pod, 1).await;
    platform.ready(&name, 1).await;
    // The replica stays unready for sixty probes, three seconds: longer than the liveness probe would tolerate.
    let unready = |r: &Revision| r.in_phase(Phase::Unready).count() == 1;
    platform.see(&name, "an unready replica", unready).await;
    let revision = platform.ready(&name, 1).await;
    assert_eq!((revision.replicas[0].restarts, revision.failure), (0, None));
}

#[tokio::test]
async fn a_pod_may_set_its_readiness_probe() {
    let platform = Platform::start();
    let mut pod = pods::server(Behaviour::NeverReady);
    pod["readinessProbe"] = json!({ "tcpSocket": { "port": 8080 } });
    let name = platform.serve("connects", pods::template(pod), 1).await;
    platform.ready(&name, 1).await;
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let platform = Platform::start();
    let pod = json!({ "name": "c", "command": ["no-such-program", "$(PORT)"] });
    let name = platform.serve("missing", pods::template(pod), 1).await;
    let message = platform.failure(&name, "cannot start").await;
    assert_eq!(message, "missing-predictor-00001-0 cannot start: program no-such-program not found in PATH");
}

#[tokio::test]
async fn a_taken_port_is_named_until_it_is_free() {
    let platform = Platform::start();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut pod = pods::server(Behaviour::Ready);
    pod["env"][1]["value"] = json!(port.to_string());
    let name = platform.serve("taken", pods::template(pod), 1).await;
    platform.failure(&name, &format!("port {port} is in use")).await;
    drop(taken);
    let revision = platform.ready(&name, 1).await;
    assert_eq!(revision.failure, None);
}

#[tokio::test]
async fn a_missing_model_is_named_until_it_is_there() {
    let platform = Platform::start();
    let mut workload = pods::workload("model", pods::template(pods::server(Behaviour::Ready)), 1);
    workload.storage.push(Storage {
        uri: "pvc://models/digits".into(),
        mount_path: Storage::MOUNT_PATH.into(),
        claims: Some(platform.folder.path().to_owned()),
    });
    let name = workload.revision.clone();
    platform.cluster.apply(pods::desired(workload)).await.unwrap();
    let message = platform.failure(&name, "is missing: put the files of pvc://models/digits there").await;
    assert!(message.contains("cannot start: /"), "{message}");
    std::fs::create_dir_all(platform.folder.path().join("models/digits")).unwrap();
    platform.ready(&name, 1).await;
}

#[tokio::test]
async fn a_model_is_downloaded_once_before_its_replicas_start() {
    let platform = Platform::start();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let uri = format!("http://{}/model.pt", listener.local_addr().unwrap());
    let store = std::thread::spawn(move || {
        // The first download is refused for good, the second one is served; there is no third.
        for status in [404, 200] {
            server::answer(listener.accept().unwrap().0, status);
        }
    });
    let pod = pods::server_after("test -s /mnt/models/model.pt || exit 9", Behaviour::Ready);
    let mut workload = pods::workload("fetched", pods::template(pod), 1);
    workload.storage.push(Storage { uri: uri.as_str().into(), mount_path: Storage::MOUNT_PATH.into(), claims: None });
    let name = workload.revision.clone();
    platform.cluster.apply(pods::desired(workload)).await.unwrap();
    let message = platform.failure(&name, "answered 404").await;
    let begin = format!("fetched-predictor-00001-0 cannot start: {uri} answered 404: ");
    assert!(message.starts_with(&begin), "{message}");
    platform.scale(&name, 2).await;
    platform.ready(&name, 2).await;
    store.join().unwrap();
}

/// Sends a file with this content, and closes the connection.
fn send_file(mut stream: TcpStream, content: &str) {
    let head = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    head.take_while(|line| !line.is_empty()).for_each(drop);
    let length = content.len();
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{content}");
    stream.write_all(response.as_bytes()).unwrap();
}

#[tokio::test]
async fn a_download_that_no_replica_can_load_is_downloaded_again() {
    let platform = Platform::start();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let uri = format!("http://{}/model.pt", listener.local_addr().unwrap());
    let store = std::thread::spawn(move || {
        for content in ["<html>please log in</html>", "weights"] {
            send_file(listener.accept().unwrap().0, content);
        }
    });
    let pod = pods::server_after("grep -q weights /mnt/models/model.pt || exit 9", Behaviour::Ready);
    let mut workload = pods::workload("again", pods::template(pod), 1);
    workload.storage.push(Storage { uri: uri.as_str().into(), mount_path: Storage::MOUNT_PATH.into(), claims: None });
    let name = workload.revision.clone();
    platform.cluster.apply(pods::desired(workload)).await.unwrap();
    platform.ready(&name, 1).await;
    store.join().unwrap();
}

/// Sends the first half of a file of a million bytes, and the rest after `rest` received a message.
fn send_in_halves(mut stream: TcpStream, rest: &Receiver<()>) {
    let half = vec![7; 500_000];
    // Unread bytes of the request would make the kernel reset the connection at its end.
    let head = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    head.take_while(|line| !line.is_empty()).for_each(drop);
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\nconnection: close\r\n\r\n").unwrap();
    stream.write_all(&half).unwrap();
    rest.recv().unwrap();
    stream.write_all(&half).unwrap();
}

#[tokio::test]
async fn a_download_reports_its_progress() {
    let platform = Platform::start();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let uri = format!("http://{}/model.pt", listener.local_addr().unwrap());
    let (send_rest, rest) = std::sync::mpsc::channel();
    let store = std::thread::spawn(move || send_in_halves(listener.accept().unwrap().0, &rest));
    let pod = pods::server_after("test -s /mnt/models/model.pt || exit 9", Behaviour::Ready);
    let mut workload = pods::workload("half", pods::template(pod), 1);
    workload.storage.push(Storage { uri: uri.as_str().into(), mount_path: Storage::MOUNT_PATH.into(), claims: None });
    let name = workload.revision.clone();
    platform.cluster.apply(pods::desired(workload)).await.unwrap();
    let half = |r: &Revision| {
        let mut downloads = r.replicas.iter().filter_map(|replica| replica.download.as_deref());
        downloads.any(|download| download.starts_with("fetching 500 kB of 1.0 MB, "))
    };
    platform.see(&name, "half of the model", half).await;
    send_rest.send(()).unwrap();
    let revision = platform.ready(&name, 1).await;
    assert_eq!(revision.replicas[0].download, None);
    store.join().unwrap();
}

#[tokio::test]
async fn a_workload_that_cannot_run_here_is_refused_without_a_trace() {
    let platform = Platform::start();
    let pod = pods::template(json!({ "name": "c", "image": "triton:24.01" }));
    let desired = pods::desired(pods::workload("image", pod, 1));
    let error = platform.cluster.apply(desired).await.unwrap_err();
    assert!(matches!(error, ClusterError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("cannot run the image \"triton:24.01\""), "{error}");
    assert!(weir_cluster::Directory::watch(&platform.cluster).borrow().revisions.is_empty());
}
