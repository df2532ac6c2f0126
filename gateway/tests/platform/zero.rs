//! Tests of services that are scaled to zero.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use weir_cluster::{Failure, FailureReason, Phase, Replica, Scale};

use crate::client::{once, post, with};
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World, revision, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_requests_at_once_wake_a_service_once_and_are_answered_in_order() {
    let world = Arc::new(World::new(1).await);
    world.serve_limited(&[100], Some(1), |_| {}).await;
    let mut reports = world.gateways[0].gateway.reports();
    let mut asked = Vec::new();
    for number in 0..500_u64 {
        asked.push(tokio::spawn(once(world.address(), post(HOST, "/", number.to_string()))));
        // The requests are sent one after the other, so that their order is known.
        let name = revision(1);
        if number == 0 {
            // The first request is reported at once, not with the next periodic report.
            let woken = reports.wait_for(|r| r.revisions.get(&name).is_some_and(|a| a.woken == 1));
            tokio::time::timeout(Duration::from_millis(500), woken).await.unwrap().unwrap();
        }
    }
    world.activity(1, |activity| activity.queued == 500 && activity.woken == 500).await;
    // The autoscaler's task, done once by the test.
    world.fake.scale(&revision(1), 1).await.unwrap();
    let replica = TestReplica::start(Behaviour::Echo(Duration::ZERO)).await;
    world.put_in(1, "a", replica.address, Phase::Starting);
    for asked in asked {
        let answer = tokio::time::timeout(TEST_TIMEOUT, asked).await.unwrap().unwrap();
        assert_eq!(answer.status, StatusCode::OK);
    }
    assert_eq!(replica.requests(), 500);
    let most = replica.seen.most.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(most, 1);
    // Arrival times according to the gateway; the body arrived a moment later.
    let heads = replica.seen.heads.lock().clone();
    let times = replica.seen.times.lock().clone();
    let mut latest = None;
    for (head, at) in heads.iter().zip(times) {
        let waited = head.headers["weir-waited-us"].to_str().unwrap().parse().unwrap();
        let came = at - Duration::from_micros(waited);
        let before = latest.unwrap_or(came);
        assert!(came + Duration::from_millis(150) >= before, "overtaken by {:?}", before - came);
        latest = Some(before.max(came));
    }
}

/// A Deployment that KEDA scales looks like this: the gateway does not know how many replicas it should have.
#[tokio::test]
async fn a_request_without_a_replica_is_reported_at_once_at_any_desired_scale() {
    let world = World::serving().await;
    world.fake.scale(&revision(1), 1).await.unwrap();
    world.settled().await;
    let mut reports = world.gateways[0].gateway.reports();
    // The next periodic report is due in a second.
    reports.changed().await.unwrap();
    let asked = tokio::spawn(once(world.address(), post(HOST, "/", "x")));
    let name = revision(1);
    let queued = reports.wait_for(|r| r.revisions.get(&name).is_some_and(|a| a.queued == 1));
    tokio::time::timeout(Duration::from_millis(500), queued).await.unwrap().unwrap();
    asked.abort();
}

#[tokio::test]
async fn a_starting_replica_is_used_as_soon_as_it_answers_a_probe() {
    let world = World::serving().await;
    let asked = tokio::spawn(once(world.address(), post(HOST, "/", "x")));
    world.activity(1, |activity| activity.queued == 1).await;
    let replica = TestReplica::start(Behaviour::Echo(Duration::ZERO)).await;
    // The platform never reports the replica ready.
    world.put_in(1, "a", replica.address, Phase::Starting);
    let answer = tokio::time::timeout(TEST_TIMEOUT, asked).await.unwrap().unwrap();
    assert_eq!(answer.text(), "x");
}

#[tokio::test]
async fn a_revision_that_never_gets_ready_says_why() {
    let world = World::new(1).await;
    let short = Duration::from_millis(300);
    world.serve(&[100], |route| route.activation_timeout = short).await;
    let failure = Failure::new(FailureReason::StorageFailed, "no file /models/digits");
    world.fake.fail(&revision(1), failure).unwrap();
    world.settled().await;
    let answer = once(world.address(), post(HOST, "/", "x")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    let text = answer.text();
    assert!(text.contains("waited 0.3"), "{text}");
    assert!(text.ends_with("; StorageFailed: the model's files cannot be fetched\"}"), "{text}");
}

/// Returns a replica in this phase, after a start that failed for this reason.
fn failed(name: &str, phase: Phase, reason: FailureReason) -> Replica {
    Replica {
        restarts: 2,
        failure: Some(Failure::new(reason, format!("{name} exited with status 1"))),
        ..Replica::new(name, phase)
    }
}

#[tokio::test]
async fn a_revision_that_cannot_start_fails_its_requests_at_once_with_the_cause() {
    let world = World::serving().await;
    let put = |replica: Replica| {
        let failure = replica.failure.clone().unwrap();
        world.fake.put(&revision(1), replica).unwrap();
        world.fake.fail(&revision(1), failure).unwrap();
    };
    // A replica that failed only once may start the next time, and another replica may start too.
    put(failed("a", Phase::BackOff, FailureReason::Exited));
    let waits = tokio::spawn(once(world.address(), post(HOST, "/", "x")));
    world.activity(1, |activity| activity.queued == 1).await;
    put(failed("b", Phase::BackOff, FailureReason::CrashLoopBackOff));
    world.settled().await;
    assert!(!waits.is_finished());
    put(failed("a", Phase::BackOff, FailureReason::CrashLoopBackOff));
    let waited = tokio::time::timeout(Duration::from_secs(10), waits).await;
    let later = once(world.address(), post(HOST, "/", "x")).await;
    for answer in [waited.unwrap().unwrap(), later] {
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        let text = answer.text();
        assert!(text.contains("CrashLoopBackOff: the program ends again and again"), "{text}");
    }
    world.activity(1, |a| (a.arrivals, a.failed, a.queued) == (2, 2, 0)).await;
    // The next start may succeed, so a request waits for it.
    put(failed("a", Phase::Starting, FailureReason::CrashLoopBackOff));
    let deadline = with(post(HOST, "/", "x"), "weir-timeout", "300");
    let late = once(world.address(), deadline).await;
    assert_eq!(late.status, StatusCode::GATEWAY_TIMEOUT);
    assert!(late.text().contains("; CrashLoopBackOff: "), "{late:?}");
}

#[tokio::test]
async fn an_error_has_the_last_exit_of_a_replica_whatever_keeps_it_now() {
    let world = World::new(1).await;
    world.serve(&[100], |route| route.activation_timeout = Duration::from_millis(300)).await;
    let exit = Failure {
        exit_code: Some(137),
        at: Some(1_767_225_610),
        ..Failure::new(FailureReason::OutOfMemory, "it used more than 2 GiB")
    };
    for (now, expected) in [
        (
            Failure::new(FailureReason::NotReady, "a is not ready"),
            "NotReady: the program runs but does not become ready; its program ended before: OutOfMemory: the program \
             exceeded its memory limit (exit status 137 at 2026-01-01T00:00:10Z)",
        ),
        (
            Failure { reason: FailureReason::CrashLoopBackOff, ..exit.clone() },
            "CrashLoopBackOff: the program ends again and again (exit status 137 at 2026-01-01T00:00:10Z)",
        ),
    ] {
        let replica = failed("a", Phase::Starting, now.reason);
        let replica = Replica { failure: Some(now.clone()), last_exit: Some(exit.clone()), ..replica };
        world.fake.put(&revision(1), replica).unwrap();
        world.fake.fail(&revision(1), now).unwrap();
        world.settled().await;
        let answer = once(world.address(), post(HOST, "/", "x")).await;
        assert!(answer.text().contains(expected), "{answer:?}");
    }
}

/// Answers requests on all connections, and counts those that are open.
async fn answer_counted(listener: TcpListener, open: Arc<AtomicUsize>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let open = Arc::clone(&open);
        open.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let mut request = [0; 1024];
            while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            }
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

#[tokio::test]
async fn a_replica_that_ends_keeps_no_idle_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, open) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    tokio::spawn(answer_counted(listener, Arc::clone(&open)));
    let world = World::serving().await;
    world.put(1, "a", address).await;
    assert_eq!(once(world.address(), post(HOST, "/", "x")).await.status, StatusCode::OK);
    assert!(open.load(Ordering::SeqCst) > 0);
    world.put_in(1, "a", address, Phase::Terminating);
    // The connection of a replica that stays is closed only after twenty idle seconds.
    let closed = until("the gateway to close its connections", || open.load(Ordering::SeqCst) == 0);
    tokio::time::timeout(Duration::from_secs(5), closed).await.unwrap();
}
