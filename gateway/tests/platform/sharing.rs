//! Several gateways in front of the same replicas.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use weir_cluster::Phase;

use crate::client::{Client, once, post};
use crate::replica::{Manner, Seen, TestReplica};
use crate::world::{HOST, PATIENCE, World, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_never_give_a_replica_two_requests_where_it_takes_one() {
    let world = World::new(2).await;
    world.serve_limited(&[100], Some(1), |_| {}).await;
    let replica = TestReplica::start(Manner::Echo(Duration::from_millis(1))).await;
    world.put(1, "a", replica.address).await;
    let addresses = [world.gateways[0].address, world.gateways[1].address];
    let workers: Vec<_> = (0..16)
        .map(|worker| {
            tokio::spawn(async move {
                let mut client = Client::new(addresses[worker % 2]);
                for number in 0..25 {
                    let body = format!("{worker}-{number}");
                    let answer = client.send(post(HOST, "/", body.clone())).await.unwrap();
                    assert_eq!((answer.status, answer.text()), (StatusCode::OK, &*body));
                    assert_eq!(answer.header("weir-revision"), "digits-predictor-00001");
                }
            })
        })
        .collect();
    for worker in workers {
        tokio::time::timeout(PATIENCE, worker)
            .await
            .unwrap()
            .unwrap();
    }
    assert_eq!(replica.requests(), 400);
    assert_eq!(replica.seen.most.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn gateways_share_many_credits_evenly() {
    let world = World::new(2).await;
    world.serve_limited(&[100], Some(4), |_| {}).await;
    let seen = Arc::new(Seen::default());
    let replica = TestReplica::sharing(Manner::Hang, Arc::clone(&seen)).await;
    world.put(1, "a", replica.address).await;
    let mut asked = Vec::new();
    for gateway in &world.gateways {
        for _ in 0..5 {
            asked.push(tokio::spawn(once(gateway.address, post(HOST, "/", ""))));
        }
    }
    seen.until_busy(4).await;
    for gateway in &world.gateways {
        until("its share", || {
            let state: serde_json::Value =
                serde_json::from_str(&gateway.gateway.describe()).unwrap();
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
    let asked: Vec<_> = (0..8)
        .map(|i| tokio::spawn(once(world.gateways[i % 2].address, post(HOST, "/", "x"))))
        .collect();
    let woken = || {
        let reports = world
            .gateways
            .iter()
            .map(|g| g.gateway.reports().borrow().clone());
        let woken = reports.map(|r| r.revisions.values().map(|a| a.woken).sum::<u64>());
        woken.collect::<Vec<_>>()
    };
    until("all to be counted", || woken().iter().sum::<u64>() == 8).await;
    assert!(woken().contains(&0), "{:?}", woken());
    let replica = TestReplica::start(Manner::Echo(Duration::ZERO)).await;
    world.put_in(1, "a", replica.address, Phase::Starting);
    for asked in asked {
        let answer = tokio::time::timeout(PATIENCE, asked)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(answer.text(), "x");
    }
}
