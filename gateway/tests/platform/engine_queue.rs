//! Tests that requests that wait inside an engine are reported as queued.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::client::{once, post};
use crate::world::{HOST, World};

const METRICS: &str = "vllm:num_requests_running{model_name=\"m\"} 1\nvllm:num_requests_waiting{model_name=\"m\"} 2\n";

/// Answers readiness probes and requests for metrics, and leaves all other requests open.
async fn engine(listener: TcpListener, metrics: &'static str) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, metrics));
    }
}

async fn answer(mut stream: TcpStream, metrics: &'static str) {
    let mut head = [0; 1024];
    let read = stream.read(&mut head).await.unwrap_or(0);
    let body = match &head[..read] {
        head if head.starts_with(b"GET /v2/health/ready") => "",
        head if head.starts_with(b"GET /metrics HTTP/1.1") => metrics,
        _ => return std::future::pending().await,
    };
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
}

async fn world(metrics: &'static str) -> World {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(engine(listener, metrics));
    let world = World::new(1).await;
    world.serve(&[100], |_| {}).await;
    world.put(1, "a", address).await;
    world
}

#[tokio::test]
async fn requests_that_wait_inside_an_engine_are_reported_as_queued() {
    let world = world(METRICS).await;
    let call = |path: &str| tokio::spawn(once(world.address(), post(HOST, path, "{}")));
    let calls: Vec<_> = (0..3).map(|_| call("/v1/chat/completions")).collect();
    world.activity(1, |activity| (activity.queued, activity.in_flight) == (2, 1)).await;
    // Nothing is answered, so the queue's age is the wait of its oldest request.
    world.activity(1, |activity| activity.oldest_us > 500_000).await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    world.activity(1, |activity| (activity.queued, activity.in_flight, activity.oldest_us) == (0, 0, 0)).await;
}

#[tokio::test]
async fn only_servers_that_generate_text_are_asked() {
    let world = world(METRICS).await;
    let call = tokio::spawn(once(world.address(), post(HOST, "/v2/models/digits/infer", "{}")));
    world.activity(1, |activity| activity.in_flight == 1 && activity.service_time.count() == 0).await;
    let mut reports = world.gateways[0].gateway.reports();
    for _ in 0..3 {
        reports.changed().await.unwrap();
    }
    world.activity(1, |activity| (activity.queued, activity.in_flight) == (0, 1)).await;
    call.abort();
}
