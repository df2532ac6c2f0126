//! Shares of a queue: a client that sends more than others displaces its own requests.

use std::num::NonZeroU32;
use std::sync::Arc;

use http::Response;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use weir_access::ClientLimits;

use super::*;
use crate::world::until;

/// Places in the queue.
const PLACES: usize = 8;

/// Starts a gateway in front of a replica that takes one request at a time and sends one response for each permit of
/// the semaphore.
async fn gated(keys: &[(u8, &str)]) -> (World, TestReplica, Arc<Semaphore>) {
    let mut options = Options::new("gateway", Scope::Cluster);
    let written = keys.iter().map(|(number, client)| written(*number, client)).collect();
    options.access = Some(AccessControl::new(policy(written, vec![rule("*", &["*"], &[])])));
    let mut world = World::new(0).await;
    world.add(options).await;
    let gate = Arc::new(Semaphore::new(0));
    let behaviour = Behaviour::Compute(Arc::clone(&gate), |_, body| {
        Response::new(Full::new(body.clone()).map_err(|never| match never {}).boxed())
    });
    world.serve_limited(&[100], Some(1), |route| route.max_queue = PLACES as u32).await;
    let replica = world.start(1, "a", behaviour).await;
    (world, replica, gate)
}

/// Sends requests of a client at once, and returns their statuses.
fn send(world: &World, number: u8, count: usize) -> tokio::task::JoinHandle<Vec<u16>> {
    let address = world.address();
    tokio::spawn(async move {
        let requests = (0..count).map(|_| {
            let request = with(post(HOST, "/v2/models/digits/infer", "x"), "x-api-key", &key(number).text);
            async move {
                let answer = once(address, request).await;
                if answer.status == StatusCode::TOO_MANY_REQUESTS {
                    assert_eq!(answer.header("retry-after"), "1");
                    assert!(answer.text().contains("more than its share"), "{}", answer.text());
                }
                answer.status.as_u16()
            }
        });
        futures_util::future::join_all(requests).await
    })
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|one| **one == status).count()
}

#[tokio::test]
async fn an_aggressor_takes_no_place_and_no_turn_of_a_client_within_its_share() {
    let (world, replica, gate) = gated(&[(1, "aggressor"), (2, "other")]).await;
    let aggressor = send(&world, 1, 10 * PLACES);
    world
        .activity(1, |activity| activity.queued as usize == PLACES && activity.refused as usize == 9 * PLACES - 1)
        .await;
    let other = send(&world, 2, PLACES / 2);
    let displaced = 9 * PLACES - 1 + PLACES / 2;
    world.activity(1, |activity| activity.refused as usize == displaced).await;
    // One request of the aggressor is at the replica; half of the next eight are the other client's.
    gate.add_permits(PLACES + 1);
    let other = other.await.unwrap();
    assert_eq!(count(&other, 200), PLACES / 2, "{other:?}");
    let aggressor = aggressor.await.unwrap();
    assert_eq!(count(&aggressor, 200), 1 + PLACES / 2, "{aggressor:?}");
    assert_eq!(count(&aggressor, 429), PLACES / 2, "{aggressor:?}");
    assert_eq!(count(&aggressor, 503), 9 * PLACES - 1, "{aggressor:?}");
    until("all answers", || replica.requests() == PLACES + 1).await;
    let heads = replica.seen.heads.lock();
    let order: Vec<&[u8]> = heads.iter().map(|head| head.headers["weir-client"].as_bytes()).collect();
    // The request of the aggressor has cost more, so the other client is next, before all that came earlier.
    assert_eq!(order[1], b"other", "{order:?}");
}

/// Requests above the rate are refused before anything is done for them, and other clients have a rate of their own.
#[tokio::test]
async fn a_client_above_its_rate_is_refused_with_the_limits_name() {
    let limits = |name: &str, burst| ClientLimits {
        clients: vec![name.to_owned()],
        requests_per_minute: NonZeroU32::new(1),
        burst: NonZeroU32::new(burst),
        ..ClientLimits::default()
    };
    let document = AccessDocument {
        keys: vec![written(1, "partner-a"), written(2, "partner-b"), written(3, "team")],
        rules: vec![rule("*", &["*"], &[])],
        limits: vec![limits("partner-*", 2), limits("team", 4)],
        ..AccessDocument::default()
    };
    let guarded = Guarded::new(Scope::Local, Policy::of(&[document]).unwrap()).await;
    for (number, burst) in [(1, 2), (2, 2), (3, 4)] {
        for _ in 0..burst {
            assert_eq!(guarded.infer(Some(&key(number).text)).await.status, StatusCode::OK);
        }
        let refused = guarded.infer(Some(&key(number).text)).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(refused.text().contains("limit requestsPerMinute"), "{}", refused.text());
        let seconds: u32 = refused.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
    }
    assert_eq!(guarded.replica.requests(), 8);
    let framed = Bytes::from_static(&[0, 0, 0, 0, 0]);
    let call = grpc::call(HOST, "/inference.GRPCInferenceService/ModelInfer", Full::new(framed));
    let call = with(call, "x-api-key", &key(1).text);
    let ended = grpc::send(guarded.world.address(), call).await;
    assert_eq!(grpc::status(&ended).0, "8");
}
