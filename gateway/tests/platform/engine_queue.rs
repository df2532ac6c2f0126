//! Tests that requests that wait inside an engine are reported as queued.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::client::{once, post};
use crate::world::{HOST, World};

const METRICS: &str = "vllm:num_requests_running{model_name=\"m\"} 1\nvllm:num_requests_waiting{model_name=\"m\"} 2\n";

/// Answers readiness probes and requests for metrics, and leaves all other requests open. The first `lacking` pages of
/// metrics are empty.
async fn engine(listener: TcpListener, metrics: &'static str, lacking: usize) {
    let lacking = Arc::new(AtomicUsize::new(lacking));
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, metrics, Arc::clone(&lacking)));
    }
}

async fn answer(mut stream: TcpStream, metrics: &'static str, lacking: Arc<AtomicUsize>) {
    let page = || match lacking.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
        Ok(_) => "",
        Err(_) => metrics,
    };
    let mut head = [0; 1024];
    let read = stream.read(&mut head).await.unwrap_or(0);
    let body = match &head[..read] {
        head if head.starts_with(b"GET /v2/health/ready") => "",
        head if head.starts_with(b"GET /metrics HTTP/1.1") => page(),
        _ => return std::future::pending().await,
    };
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
}

async fn world(metrics: &'static str, lacking: usize) -> World {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(engine(listener, metrics, lacking));
    let world = World::serving().await;
    world.put(1, "a", address).await;
    world
}

/// Returns the gateway's gauges of the requests that are queued and in flight.
fn gauges(world: &World) -> (String, String) {
    let mut registry = weir_ops::registry::Registry::default();
    world.gateways[0].gateway.register(&mut registry);
    let text = weir_ops::registry::text(&registry).unwrap();
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
        line.and_then(|line| line.rsplit(' ').next()).unwrap_or_default().to_owned()
    };
    (value("weir_revision_queued"), value("weir_revision_in_flight"))
}

#[tokio::test]
async fn requests_that_wait_inside_an_engine_are_reported_as_queued() {
    let world = world(METRICS, 0).await;
    let call = |path: &str| tokio::spawn(once(world.address(), post(HOST, path, "{}")));
    let calls: Vec<_> = (0..3).map(|_| call("/v1/chat/completions")).collect();
    world.activity(1, |activity| (activity.queued, activity.in_flight) == (2, 1)).await;
    // Nothing is answered, so the queue's age is the wait of its oldest request.
    world.activity(1, |activity| activity.oldest_us > 500_000).await;
    // The metrics and the status show the same.
    assert_eq!(gauges(&world), ("2".to_owned(), "1".to_owned()));
    let described: serde_json::Value = serde_json::from_str(&world.gateways[0].gateway.describe()).unwrap();
    assert_eq!(described["revisions"][0]["queued"], 2, "{described}");
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    world.activity(1, |activity| (activity.queued, activity.in_flight, activity.oldest_us) == (0, 0, 0)).await;
}

#[tokio::test]
async fn an_engine_that_reports_its_queue_only_later_is_asked_again() {
    let world = world(METRICS, 3).await;
    let call = || tokio::spawn(once(world.address(), post(HOST, "/v1/chat/completions", "{}")));
    let calls: Vec<_> = (0..3).map(|_| call()).collect();
    world.activity(1, |activity| (activity.queued, activity.in_flight) == (2, 1)).await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn only_servers_that_generate_text_have_their_metrics_read() {
    let world = world(METRICS, 0).await;
    let call = tokio::spawn(once(world.address(), post(HOST, "/v2/models/digits/infer", "{}")));
    world.activity(1, |activity| activity.in_flight == 1 && activity.service_time.count() == 0).await;
    let mut reports = world.gateways[0].gateway.reports();
    for _ in 0..3 {
        reports.changed().await.unwrap();
    }
    world.activity(1, |activity| (activity.queued, activity.in_flight) == (0, 1)).await;
    call.abort();
}

#[tokio::test]
async fn metrics_at_a_port_of_their_own_are_read_for_every_path() {
    let metrics = "nv_inference_pending_request_count{model=\"m\",version=\"1\"} 2\n";
    let (serving, scraped) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let addresses = (serving.local_addr().unwrap(), scraped.local_addr().unwrap());
    tokio::spawn(engine(serving, "", 0));
    tokio::spawn(engine(scraped, metrics, 0));
    let world = World::serving().await;
    world.put_with_metrics(1, addresses.0, addresses.1);
    let call = || tokio::spawn(once(world.address(), post(HOST, "/v2/models/digits/infer", "{}")));
    let calls: Vec<_> = (0..3).map(|_| call()).collect();
    world.activity(1, |activity| activity.queued == 2).await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    world.activity(1, |activity| (activity.queued, activity.in_flight) == (0, 0)).await;
}

/// An engine without metrics that works on one request at a time: each stream begins after those before it have ended.
async fn serial_engine(listener: TcpListener) {
    let worker = Arc::new(tokio::sync::Mutex::new(()));
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(stream_in_turn(stream, Arc::clone(&worker)));
    }
}

async fn stream_in_turn(mut stream: TcpStream, worker: Arc<tokio::sync::Mutex<()>>) {
    let mut head = [0; 1024];
    loop {
        let read = stream.read(&mut head).await.unwrap_or(0);
        let answer: &[u8] = match &head[..read] {
            [] => return,
            head if head.starts_with(b"GET /v2/health/ready") => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            head if head.starts_with(b"GET /metrics") => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            _ => {
                let _working = worker.lock().await;
                // Simulated time of an answer, for which the other requests wait.
                tokio::time::sleep(Duration::from_millis(400)).await;
                EVENTS
            }
        };
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

const EVENTS: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
    transfer-encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n0\r\n\r\n";

#[tokio::test]
async fn streams_whose_first_byte_is_later_than_the_engine_needs_alone_are_reported_as_queued() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serial_engine(listener));
    let world = World::serving().await;
    world.put(1, "a", address).await;
    for _ in 0..4 {
        once(world.address(), post(HOST, "/v1/chat/completions", "{}")).await;
    }
    // The engine's own time is known now, and none of these requests waited.
    world.activity(1, |activity| (activity.queued, activity.oldest_us) == (0, 0)).await;
    let call = || tokio::spawn(once(world.address(), post(HOST, "/v1/chat/completions", "{}")));
    let calls: Vec<_> = (0..12).map(|_| call()).collect();
    world.activity(1, |activity| activity.queued > 1 && activity.oldest_us > 700_000).await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    world.activity(1, |activity| (activity.queued, activity.in_flight, activity.oldest_us) == (0, 0, 0)).await;
}
