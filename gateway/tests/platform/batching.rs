//! Tests of batches that the gateway forms for a replica that sums the numbers of each row.

mod model;
mod wires;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use weir_cluster::Batching;

use crate::client::{Answered, once, post, with};
use crate::isolation::leave_unread;
use crate::replica::{Behaviour, Compute, TestReplica};
use crate::world::{HOST, World, until};

/// Creates a closed gate. Until it is opened, the replica answers no request.
fn closed() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(0))
}

fn open(gate: &Semaphore) {
    gate.add_permits(Semaphore::MAX_PERMITS / 2);
}

async fn world(max_size: u32, max_latency: Duration) -> World {
    let world = World::new(1).await;
    let batching = Batching { max_size, max_latency };
    world.serve(&[100], |route| route.batching = Some(batching)).await;
    world
}

const LONG: Duration = Duration::from_secs(60);

async fn replica(world: &World, name: &str, gate: &Arc<Semaphore>, model: Compute) -> TestReplica {
    let behaviour = Behaviour::Compute(Arc::clone(gate), model);
    let replica = TestReplica::start(behaviour).await;
    world.put(1, name, replica.address).await;
    replica
}

/// Creates a world with one replica, behind a closed gate.
async fn serving(max_size: u32, max_latency: Duration, model: Compute) -> (World, Arc<Semaphore>, TestReplica) {
    let (world, gate) = (world(max_size, max_latency).await, closed());
    let replica = replica(&world, "a", &gate, model).await;
    (world, gate, replica)
}

/// Sends one row over V1 from a task of its own.
fn predict(world: &World, row: &str) -> JoinHandle<Answered> {
    let address = world.address();
    let body = format!("{{\"instances\":[{row}]}}");
    tokio::spawn(async move { once(address, post(HOST, "/v1/models/digits:predict", body)).await })
}

/// Sends one request that keeps the replica busy, and then `rows`, which gather in the batch queue meanwhile.
async fn gathered(world: &World, replica: &TestReplica, rows: &[&str]) -> Vec<JoinHandle<Answered>> {
    let mut clients = vec![predict(world, "[100]")];
    replica.seen.until_busy(1).await;
    for (i, row) in rows.iter().enumerate() {
        clients.push(predict(world, row));
        world.activity(1, |a| a.arrivals as usize == i + 2).await;
    }
    clients
}

async fn texts(clients: Vec<JoinHandle<Answered>>) -> Vec<String> {
    let mut texts = Vec::new();
    for client in clients {
        texts.push(client.await.unwrap().text().to_owned());
    }
    texts
}

#[tokio::test]
async fn one_bad_request_does_not_fail_its_neighbours() {
    let (world, gate, replica) = serving(8, LONG, model::strict).await;
    let clients = gathered(&world, &replica, &["[1]", "[\"x\"]", "[3]"]).await;
    open(&gate);
    let answers = texts(clients).await;
    let refused = "{\"error\":\"no number\"}";
    let sums = ["[100.0]", "[1.0]", "", "[3.0]"].map(|sum| format!("{{\"predictions\":{sum}}}"));
    assert_eq!(answers, [&sums[0], &sums[1], refused, &sums[3]]);
    // The replica gets the first request, the batch, and then the batch's three requests one by one.
    assert_eq!(replica.requests(), 5);
    world.activity(1, |a| (a.arrivals, a.succeeded, a.failed) == (4, 4, 0)).await;
    // The queue time of each request is recorded once, in the batch or before it is sent alone.
    world.activity(1, |a| a.queue_delay.count() == 4).await;
}

#[tokio::test]
async fn a_batch_survives_its_replica() {
    let (world, gate) = (world(4, LONG).await, closed());
    let lost = replica(&world, "a", &gate, model::lenient).await;
    let clients = gathered(&world, &lost, &["[1]", "[2]", "[3]", "[4]"]).await;
    lost.seen.until_busy(2).await;
    let (gate, seen) = (closed(), Arc::clone(&lost.seen));
    open(&gate);
    let successor = replica(&world, "b", &gate, model::lenient).await;
    drop(lost);
    let answers = texts(clients).await;
    let sums = [100, 1, 2, 3, 4].map(|sum| format!("{{\"predictions\":[{sum}.0]}}"));
    assert_eq!(answers, sums);
    assert_eq!((model::most_rows(&seen), model::most_rows(&successor.seen)), (4, 4));
    assert_eq!(successor.requests(), 2);
    world.activity(1, |a| (a.succeeded, a.in_flight) == (5, 0)).await;
    world.activity(1, |a| a.queue_delay.count() == 5).await;
}

#[tokio::test]
async fn the_rows_of_a_disconnected_client_are_removed() {
    let (world, gate, replica) = serving(8, LONG, model::lenient).await;
    let mut clients = gathered(&world, &replica, &["[1]", "[2]", "[3]"]).await;
    world.activity(1, |a| a.queued == 3).await;
    clients.remove(2).abort();
    world.activity(1, |a| a.queued == 2).await;
    open(&gate);
    assert_eq!(texts(clients).await[1..], ["{\"predictions\":[1.0]}", "{\"predictions\":[3.0]}"]);
    let bodies = replica.seen.bodies.lock().clone();
    assert_eq!(bodies, ["{\"instances\":[[100]]}", "{\"instances\":[[1],[3]]}"]);
}

#[tokio::test]
async fn a_batch_is_cancelled_when_all_its_clients_disconnect() {
    let (world, gate, replica) = serving(2, LONG, model::lenient).await;
    let clients = gathered(&world, &replica, &["[1]", "[2]"]).await;
    replica.seen.until_busy(2).await;
    for client in &clients[1..] {
        client.abort();
    }
    replica.seen.until_busy(1).await;
    world.activity(1, |a| a.in_flight == 1).await;
    open(&gate);
    assert_eq!(texts(clients.into_iter().take(1).collect()).await, ["{\"predictions\":[100.0]}"]);
}

#[tokio::test]
async fn a_batch_is_sent_after_its_longest_delay() {
    let (world, gate, replica) = serving(8, Duration::from_millis(50), model::lenient).await;
    let clients = gathered(&world, &replica, &["[1]"]).await;
    // The first request is still at the replica.
    replica.seen.until_busy(2).await;
    open(&gate);
    assert_eq!(texts(clients).await[1..], ["{\"predictions\":[1.0]}"]);
}

#[tokio::test]
async fn a_request_whose_deadline_passes_fails_and_the_others_are_answered() {
    let (world, gate, replica) = serving(8, LONG, model::lenient).await;
    let clients = gathered(&world, &replica, &["[1]"]).await;
    let expiring = post(HOST, "/v1/models/digits:predict", "{\"instances\":[[2]]}");
    let late = once(world.address(), with(expiring, "weir-timeout", "40")).await;
    assert_eq!(late.status, StatusCode::GATEWAY_TIMEOUT);
    assert!(late.text().contains("deadline exceeded"), "{}", late.text());
    open(&gate);
    assert_eq!(texts(clients).await[1..], ["{\"predictions\":[1.0]}"]);
    world.activity(1, |a| (a.succeeded, a.failed, a.queued) == (2, 0, 0)).await;
}

#[tokio::test]
async fn a_deadline_that_passes_at_the_replica_of_a_batch_is_reported_with_its_name() {
    let (world, gate, replica) = serving(2, LONG, model::lenient).await;
    let clients = gathered(&world, &replica, &["[1]"]).await;
    let expiring = post(HOST, "/v1/models/digits:predict", "{\"instances\":[[2]]}");
    let late = once(world.address(), with(expiring, "weir-timeout", "2000")).await;
    assert_eq!((late.status, replica.requests()), (StatusCode::GATEWAY_TIMEOUT, 2));
    assert!(late.text().contains("s for replica a"), "{}", late.text());
    open(&gate);
    assert_eq!(texts(clients).await[1..], ["{\"predictions\":[1.0]}"]);
}

#[tokio::test]
async fn a_cookie_is_not_shared() {
    let (world, gate, replica) = serving(8, LONG, model::personal).await;
    let clients = gathered(&world, &replica, &["[1]", "[2]"]).await;
    open(&gate);
    for client in clients.into_iter().skip(1) {
        let answer = client.await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
        assert!(!answer.headers.contains_key("set-cookie"));
    }
    assert_eq!(model::most_rows(&replica.seen), 2);
}

#[tokio::test]
async fn a_response_without_a_result_per_row_fails_the_batch_with_the_reason() {
    let (world, gate, replica) = serving(8, LONG, model::only_one).await;
    let clients = gathered(&world, &replica, &["[1]", "[2]"]).await;
    open(&gate);
    for (i, client) in clients.into_iter().enumerate() {
        let answer = client.await.unwrap();
        match i {
            0 => assert_eq!(answer.status, StatusCode::OK),
            _ => {
                assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
                let wanted = r#"a batch of 2 rows without one result per row: output \"predictions\" has 1 rows"#;
                assert!(answer.text().contains(wanted), "{}", answer.text());
            }
        }
    }
    world.activity(1, |a| (a.succeeded, a.failed) == (1, 2)).await;
}

#[tokio::test]
async fn a_full_batch_queue_refuses_requests() {
    let (world, gate) = (world(8, LONG).await, closed());
    world
        .serve(&[100], |route| {
            route.max_queue = 1;
            route.batching = Some(Batching { max_size: 8, max_latency: LONG });
        })
        .await;
    let replica = replica(&world, "a", &gate, model::lenient).await;
    let clients = gathered(&world, &replica, &["[1]"]).await;
    let refused = predict(&world, "[2]").await.unwrap();
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    open(&gate);
    assert_eq!(texts(clients).await[1..], ["{\"predictions\":[1.0]}"]);
    world.activity(1, |a| (a.arrivals, a.refused, a.succeeded) == (3, 1, 2)).await;
}

#[tokio::test]
async fn a_batch_queue_is_full_of_bytes_too() {
    let mut options = weir_gateway::Options::new("gateway", weir_gateway::Scope::Local);
    let body = r#"{"instances":[[1]]}"#.len();
    options.queue_bytes = body + 1;
    let world = World::of(options).await;
    let batching = Batching { max_size: 8, max_latency: LONG };
    world.serve(&[100], |route| route.batching = Some(batching)).await;
    let gate = closed();
    let replica = replica(&world, "a", &gate, model::lenient).await;
    let clients = gathered(&world, &replica, &["[1]"]).await;
    let refused = predict(&world, "[2]").await.unwrap();
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    let expected = format!("is full: 1 requests with {body} bytes wait");
    assert!(refused.text().contains(&expected), "{}", refused.text());
    open(&gate);
    assert_eq!(texts(clients).await[1..], ["{\"predictions\":[1.0]}"]);
}

#[tokio::test]
async fn requests_that_cannot_be_merged_are_forwarded_unchanged() {
    let (world, gate, replica) = serving(8, LONG, model::echo).await;
    let busy = predict(&world, "[1]");
    replica.seen.until_busy(1).await;
    let v2 = "/v2/models/digits/infer";
    let requests = [
        (post(HOST, "/v1/models/digits:predict", "{\"instances\":"), "{\"instances\":"),
        (post(HOST, v2, "{\"inputs\":[]}"), "{\"inputs\":[]}"),
        (post(HOST, "/v2/models/digits/generate", "{}"), "{}"),
        (with(post(HOST, v2, "packed"), "content-encoding", "gzip"), "packed"),
    ];
    let others: Vec<_> =
        requests.into_iter().map(|(request, body)| (tokio::spawn(once(world.address(), request)), body)).collect();
    // None of them waits for the first request.
    replica.seen.until_busy(5).await;
    open(&gate);
    for (other, body) in others {
        assert_eq!(other.await.unwrap().text(), body);
    }
    busy.await.unwrap();
}

#[tokio::test]
async fn batches_are_counted() {
    let (world, gate) = (world(8, LONG).await, closed());
    let mut registry = prometheus_client::registry::Registry::default();
    world.gateways[0].gateway.register(&mut registry);
    let replica = replica(&world, "a", &gate, model::lenient).await;
    let clients = gathered(&world, &replica, &["[1]", "[2]", "[3]"]).await;
    open(&gate);
    texts(clients).await;
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in ["weir_gateway_batches_total 1\n", "weir_gateway_batched_requests_total 3\n"] {
        assert!(text.contains(line), "{text}");
    }
    until("all batches to end", || replica.requests() == 2).await;
}

/// Unread answers of a batch would otherwise take memory outside of the byte budget, even the whole answer of the
/// batch.
#[tokio::test]
async fn answers_of_a_batch_are_charged_until_they_are_read() {
    let (world, gate) = (world(8, LONG).await, closed());
    let mut registry = weir_ops::registry::Registry::default();
    world.gateways[0].gateway.register(&mut registry);
    let replica = replica(&world, "a", &gate, model::wide).await;
    let busy = gathered(&world, &replica, &[]).await;
    let row = |row: u32| {
        let body = format!("{{\"instances\":[[{row}]]}}");
        let request = Request::post(format!("http://{HOST}/v1/models/digits:predict"));
        request.body(Full::new(Bytes::from(body))).unwrap()
    };
    let opening = async {
        world.activity(1, |a| a.arrivals == 3).await;
        open(&gate);
    };
    let unread = (leave_unread(&world, row(1)), leave_unread(&world, row(2)));
    let (first, second, ()) = tokio::join!(unread.0, unread.1, opening);
    texts(busy).await;
    let buffered = || {
        let text = weir_ops::registry::text(&registry).unwrap();
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix("weir_gateway_buffered_bytes "));
        line.unwrap().parse::<u64>().unwrap()
    };
    assert!(buffered() > 1 << 20, "{}", buffered());
    drop((first, second));
    until("the answers to be dropped", || buffered() == 0).await;
    assert_eq!(model::most_rows(&replica.seen), 2);
}
