//! Tests of several gateways in front of the same replicas.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::watch;
use weir_cluster::{Directory, Phase, Snapshot};
use weir_gateway::{Options, Scope};

use crate::burst::Targets;
use crate::client::{once, post, with};
use crate::replica::{Behaviour, Observed, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World, until};

/// Sends half of a burst to each of two gateways, and checks that no replica exceeds its limit of one request.
async fn two_gateways_keep_a_limit_of_one(replicas: u32) {
    let world = World::new(2).await;
    world.serve_limited(&[100], Some(1), |_| {}).await;
    let replicas = start(&world, replicas).await;
    let targets = Targets::of(&world);
    let half = |target: usize| targets.burst(8, 400, move |_| target);
    let (first, second) = tokio::join!(half(0), half(1));
    never_more_than_one(&replicas);
    let requests: usize = replicas.iter().map(TestReplica::requests).sum();
    assert_eq!((first + second, requests), (800, 800));
    // When one gateway had answered its half, the other had answered most of its own half.
    let lead = targets.lead.load(Ordering::SeqCst);
    assert!(lead <= 200, "one gateway is {lead} answers ahead");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_keep_the_limit_of_one_replica() {
    two_gateways_keep_a_limit_of_one(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_keep_the_limits_of_three_replicas() {
    two_gateways_keep_a_limit_of_one(3).await;
}

/// Adds a gateway and removes another during a burst, and checks that every request is answered and that no replica
/// exceeds its limit.
async fn gateways_come_and_go_within_a_burst(replicas: u32) {
    let mut world = World::new(2).await;
    world.serve_limited(&[100], Some(1), |_| {}).await;
    let replicas = start(&world, replicas).await;
    let targets = Arc::new(Targets::of(&world));
    let bursting = {
        let targets = Arc::clone(&targets);
        tokio::spawn(async move { targets.burst(24, 900, |number| number).await })
    };
    targets.until_answered(200).await;
    world.add(Options::new("gateway-2", Scope::Local)).await;
    until("the gateway to have routes", || {
        let state: serde_json::Value = serde_json::from_str(&world.gateways[2].gateway.describe()).unwrap();
        state["revisions"].as_array().is_some_and(|revisions| !revisions.is_empty())
    })
    .await;
    targets.open(world.gateways[2].address);
    targets.until_answered(500).await;
    let mut leaving = world.gateways.remove(0);
    leaving.resign();
    let target = targets.close(leaving.address);
    until("its requests to be answered", || target.busy.load(Ordering::SeqCst) == 0).await;
    leaving.stop.cancel();
    let served = tokio::time::timeout(TEST_TIMEOUT, leaving.serving.take().unwrap()).await;
    served.unwrap().unwrap();
    let answered = tokio::time::timeout(2 * TEST_TIMEOUT, bursting).await;
    assert_eq!(answered.unwrap().unwrap(), 900);
    never_more_than_one(&replicas);
    let requests: usize = replicas.iter().map(TestReplica::requests).sum();
    assert_eq!(requests, 900);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_one_replica_is_kept_while_gateways_come_and_go() {
    gateways_come_and_go_within_a_burst(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limits_of_three_replicas_are_kept_while_gateways_come_and_go() {
    gateways_come_and_go_within_a_burst(3).await;
}

async fn start(world: &World, replicas: u32) -> Vec<TestReplica> {
    let mut started = Vec::new();
    for number in 0..replicas {
        let replica = TestReplica::start(Behaviour::Work(Duration::from_millis(1))).await;
        world.put(1, &format!("replica-{number}"), replica.address).await;
        started.push(replica);
    }
    started
}

fn never_more_than_one(replicas: &[TestReplica]) {
    for replica in replicas {
        assert_eq!(replica.seen.most.load(Ordering::SeqCst), 1);
        assert!(replica.requests() > 0);
    }
}

#[tokio::test]
async fn gateways_share_many_credits_evenly() {
    let world = World::new(2).await;
    world.serve_limited(&[100], Some(4), |_| {}).await;
    let seen = Arc::new(Observed::default());
    let replica = TestReplica::sharing(Behaviour::Hang, Arc::clone(&seen)).await;
    world.put(1, "a", replica.address).await;
    let mut asked = Vec::new();
    for gateway in &world.gateways {
        for _ in 0..5 {
            asked.push(tokio::spawn(once(gateway.address, post(HOST, "/", ""))));
        }
    }
    seen.until_busy(4).await;
    for gateway in &world.gateways {
        until("the gateway to use its share", || {
            let state: serde_json::Value = serde_json::from_str(&gateway.gateway.describe()).unwrap();
            let revision = &state["revisions"][0];
            revision["in_flight"] == 2 && revision["queued"] == 3
        })
        .await;
    }
    asked.iter().for_each(tokio::task::JoinHandle::abort);
    seen.until_busy(0).await;
}

#[tokio::test]
async fn a_cold_service_is_woken_by_one_gateway_only() {
    let world = World::new(2).await;
    world.serve_limited(&[100], Some(1), |_| {}).await;
    let asked: Vec<_> =
        (0..8).map(|i| tokio::spawn(once(world.gateways[i % 2].address, post(HOST, "/", "x")))).collect();
    let woken = || {
        let reports = world.gateways.iter().map(|g| g.gateway.reports().borrow().clone());
        let woken = reports.map(|r| r.revisions.values().map(|a| a.woken).sum::<u64>());
        woken.collect::<Vec<_>>()
    };
    until("all to be counted", || woken().iter().sum::<u64>() == 8).await;
    assert!(woken().contains(&0), "{:?}", woken());
    let replica = TestReplica::start(Behaviour::Echo(Duration::ZERO)).await;
    world.put_in(1, "a", replica.address, Phase::Starting);
    for asked in asked {
        let answer = tokio::time::timeout(TEST_TIMEOUT, asked).await.unwrap().unwrap();
        assert_eq!(answer.text(), "x");
    }
}

/// Adds a gateway that learns of every change except of the routes. The sender changes that.
async fn add_without_routes(world: &mut World, name: &str) -> Arc<watch::Sender<Arc<Snapshot>>> {
    let (feed, snapshots) = watch::channel(Arc::default());
    let (feed, mut changes) = (Arc::new(feed), world.fake.watch());
    let feeding = Arc::downgrade(&feed);
    tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            let news = Snapshot::clone(&changes.borrow_and_update());
            let Some(feed) = feeding.upgrade() else { return };
            feed.send_replace(Arc::new(Snapshot { routes: Arc::default(), ..news }));
        }
    });
    world.add_following(Options::new(name, Scope::Local), None, snapshots).await;
    feed
}

/// Creates a world with the gateway `first`, a gateway `late` that does not know the route, and one replica that takes one
/// request at a time.
async fn with_late(first: &str, late: &str) -> (World, Arc<watch::Sender<Arc<Snapshot>>>, Vec<TestReplica>) {
    let mut world = World::new(0).await;
    world.add(Options::new(first, Scope::Local)).await;
    let feed = add_without_routes(&mut world, late).await;
    world.serve_limited(&[100], Some(1), |_| {}).await;
    let replicas = start(&world, 1).await;
    (world, feed, replicas)
}

/// Asks the gateway `first` while the gateway `late` does not know the route, and lets `late` learn of it. Returns true
/// if the request was handed over before that.
async fn waits_for_the_route(first: &str, late: &str) -> bool {
    let (world, feed, _replicas) = with_late(first, late).await;
    let asked = tokio::spawn(once(world.address(), post(HOST, "/", "x")));
    let retries = || world.counter("weir_gateway_replays_total");
    until("an answer or a retry", || asked.is_finished() || retries() > 0).await;
    feed.send_replace(world.fake.snapshot());
    let answer = tokio::time::timeout(TEST_TIMEOUT, asked).await.unwrap().unwrap();
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "x"), "{first}, {late}");
    retries() > 0
}

/// One of the gateways owns the queue of the replica's only credit.
#[tokio::test]
async fn a_request_waits_for_an_owner_that_does_not_know_its_route_yet() {
    let (one, other) = (waits_for_the_route("a", "b").await, waits_for_the_route("b", "a").await);
    assert_ne!(one, other, "one of the two is the owner");
}

/// Returns true if a request fails because the gateway `late` never learns of the route.
async fn fails_without_an_owner(first: &str, late: &str) -> bool {
    let (world, _feed, _replicas) = with_late(first, late).await;
    let answer = once(world.address(), post(HOST, "/", "x")).await;
    if answer.status == StatusCode::OK {
        return false;
    }
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!answer.headers.contains_key("weir-unserved"), "{answer:?}");
    assert!(answer.text().contains("disagree on the owner"), "{answer:?}");
    world.activity(1, |activity| activity.failed == 1).await;
    true
}

#[tokio::test]
async fn a_request_that_no_gateway_takes_over_counts_as_failed() {
    let (one, other) = (fails_without_an_owner("a", "b").await, fails_without_an_owner("b", "a").await);
    assert_ne!(one, other, "one of the two is the owner");
}

/// All gateways and clients of a test have the same address, so the header counts as that of a gateway.
#[tokio::test]
async fn only_another_gateway_reads_that_a_revision_may_be_known_later() {
    let world = World::new(2).await;
    world.serve(&[100], |_| {}).await;
    for (host, revision) in [(HOST, "digits-predictor-00007"), ("other.default", "other-predictor-00001")] {
        let ask = || with(post(host, "/", ""), "weir-revision", revision);
        let client = once(world.address(), ask()).await;
        assert_eq!(client.status, StatusCode::NOT_FOUND, "{client:?}");
        assert!(!client.headers.contains_key("weir-unserved"), "{client:?}");
        let gateway = once(world.address(), with(ask(), "weir-hop", "1")).await;
        assert_eq!((gateway.status, gateway.header("weir-unserved")), (StatusCode::SERVICE_UNAVAILABLE, "1"));
    }
}
