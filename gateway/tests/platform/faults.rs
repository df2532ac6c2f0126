//! Tests of replicas that hang, break off, send garbage, refuse or die, and of clients that disconnect or are late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use weir_cluster::{Batching, Failure, FailureReason};

use crate::client::{Client, connect, connect_h2, once, post, with};
use crate::grpc;
use crate::replica::{Behaviour, Observed, Refusal, TestBody, TestReplica, full};
use crate::world::{HOST, World, until};

const ECHO: Behaviour = Behaviour::Echo(Duration::ZERO);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_when_replicas_die_under_load() {
    let world = Arc::new(World::new(1).await);
    world.serve_limited(&[100], Some(8), |_| {}).await;
    let mut replicas = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let replica = TestReplica::start(Behaviour::Echo(Duration::from_millis(2))).await;
        world.put(1, name, replica.address).await;
        replicas.push(Some(replica));
    }
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let workers: Vec<_> =
        (0..16).map(|i| tokio::spawn(load(world.address(), i, Arc::clone(&stop), Arc::clone(&sent)))).collect();
    for round in 0..12 {
        let before = sent.load(Ordering::SeqCst);
        until("some requests", || sent.load(Ordering::SeqCst) >= before + 100).await;
        let old = replicas[round % 4].take().unwrap();
        let (address, seen) = (old.address, Arc::clone(&old.seen));
        drop(old);
        let before = sent.load(Ordering::SeqCst);
        until("some more", || sent.load(Ordering::SeqCst) >= before + 100).await;
        let listener = TcpListener::bind(address).await.unwrap();
        let again = TestReplica::on(listener, Behaviour::Echo(Duration::from_millis(2)), seen);
        replicas[round % 4] = Some(again);
    }
    stop.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.unwrap();
    }
}

async fn load(address: std::net::SocketAddr, worker: usize, stop: Arc<AtomicBool>, sent: Arc<AtomicUsize>) {
    let mut client = Client::new(address);
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let body = format!("{worker}-{number}");
        let answer = client.send(post(HOST, "/", body.clone())).await.unwrap();
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, &*body));
        sent.fetch_add(1, Ordering::SeqCst);
    }
}

/// Replica whose program ends, with all its connections, when it receives a request with the body `poison`.
struct Mortal {
    answered: AtomicUsize,
    /// Cancelled by the request that ends the replica.
    ends: CancellationToken,
    /// Cancelled once the port is closed.
    ended: CancellationToken,
    /// Cancelled once the replica has received a request that it does not answer.
    holds: CancellationToken,
    address: std::net::SocketAddr,
}

impl Mortal {
    async fn start() -> (Arc<Self>, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mortal = Arc::new(Self {
            answered: AtomicUsize::new(0),
            ends: CancellationToken::new(),
            ended: CancellationToken::new(),
            holds: CancellationToken::new(),
            address,
        });
        tokio::spawn(Arc::clone(&mortal).listen(listener));
        (mortal, address)
    }

    async fn listen(self: Arc<Self>, listener: TcpListener) {
        while let Some(Ok((stream, _))) = self.ends.run_until_cancelled(listener.accept()).await {
            tokio::spawn(Arc::clone(&self).answer(stream));
        }
        drop(listener);
        self.ended.cancel();
    }

    async fn answer(self: Arc<Self>, mut stream: TcpStream) {
        let mut text = [0; 4096];
        while let Some(Ok(read @ 1..)) = self.ends.run_until_cancelled(stream.read(&mut text)).await {
            let text = &text[..read];
            let has = |part: &str| text.windows(part.len()).any(|at| at == part.as_bytes());
            if has("[100]") {
                self.holds.cancel();
                self.ends.cancelled().await;
                break;
            }
            if has("[1],[2]") {
                // Break off the response to a batch.
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{").await.unwrap();
                self.ends.cancel();
                break;
            }
            if text.ends_with(b"poison") {
                self.ends.cancel();
                break;
            }
            let is_probe = text.starts_with(b"GET /v2/health/ready");
            let counted = usize::from(!is_probe);
            self.answered.fetch_add(counted, Ordering::SeqCst);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        }
        if self.ends.is_cancelled() {
            // The port is closed before this connection breaks, so that a new connection is refused by then.
            self.ended.cancelled().await;
        }
    }
}

/// Creates a gateway with replicas of these names, each with an open connection.
async fn mortals(names: &[&'static str]) -> (World, Vec<Arc<Mortal>>) {
    let world = World::serving().await;
    let mut replicas = Vec::new();
    for name in names {
        let (replica, address) = Mortal::start().await;
        world.put(1, name, address).await;
        replicas.push(replica);
    }
    while replicas.iter().any(|replica| replica.answered.load(Ordering::SeqCst) == 0) {
        let answer = once(world.address(), post(HOST, "/", "x")).await;
        assert_eq!(answer.status, StatusCode::OK);
    }
    (world, replicas)
}

fn ended(replicas: &[Arc<Mortal>]) -> usize {
    let ended = replicas.iter().filter(|replica| replica.ends.is_cancelled());
    ended.count()
}

#[tokio::test]
async fn a_request_that_ends_replicas_is_retried_three_times_without_reports() {
    let (world, replicas) = mortals(&["a", "b", "c", "d", "e", "f"]).await;
    let answer = once(world.address(), post(HOST, "/", "poison")).await;
    assert!(answer.status.is_server_error(), "{answer:?}");
    assert_eq!(ended(&replicas), 2, "the first, and one retry");
}

/// Sends a request that ends replicas. The platform reports each end with this exit status.
async fn poisoned(exit_code: i32) -> (crate::client::Answered, usize) {
    poisoned_by(|world, name, _| world.end(1, name, exit_code)).await
}

/// Sends a request that ends replicas. `report` reports the end of each replica.
async fn poisoned_by(report: impl Fn(&World, &'static str, std::net::SocketAddr)) -> (crate::client::Answered, usize) {
    let names = ["a", "b", "c", "d"];
    let (world, replicas) = mortals(&names).await;
    let asked = tokio::spawn(once(world.address(), post(HOST, "/", "poison")));
    let mut reported = [false; 4];
    repeat_until(|| {
        for (index, replica) in replicas.iter().enumerate() {
            if replica.ends.is_cancelled() && !std::mem::replace(&mut reported[index], true) {
                report(&world, names[index], replica.address);
            }
        }
        asked.is_finished()
    })
    .await;
    (asked.await.unwrap(), ended(&replicas))
}

/// Repeats a step until it returns true.
async fn repeat_until(mut step: impl FnMut() -> bool) {
    let stepping = async {
        while !step() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(crate::world::TEST_TIMEOUT, stepping).await.unwrap();
}

#[tokio::test]
async fn a_request_in_a_crashed_replica_is_not_retried() {
    let (answer, ended) = poisoned(139).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{answer:?}");
    let text = answer.text();
    assert!(text.contains("which is not retried"), "{text}");
    assert!(text.contains("Exited: the program ended (exit status 139)"), "{text}");
    assert_eq!(ended, 1);
}

#[tokio::test]
async fn a_request_in_a_killed_replica_is_retried_once() {
    let (answer, ended) = poisoned(137).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{answer:?}");
    assert_eq!(ended, 2);
}

/// Sends a request that ends replicas. The platform restarts each program at the same address, and later reports how
/// the program ended.
async fn poisoned_where_restarts_do_not_count(exit: Failure) -> (crate::client::Answered, usize) {
    poisoned_by(|world, name, address| world.report_exit(1, name, address, &exit)).await
}

#[tokio::test]
async fn a_reported_exit_of_a_replica_that_stays_counts_as_well() {
    let exit = |reason, code| Failure { exit_code: Some(code), at: Some(7), ..Failure::new(reason, "it ended") };
    for (exit, expected) in [
        (exit(FailureReason::Exited, 139), 1),
        (exit(FailureReason::OutOfMemory, 137), 1),
        (exit(FailureReason::Exited, 137), 2),
    ] {
        let (answer, ended) = poisoned_where_restarts_do_not_count(exit.clone()).await;
        assert_eq!((answer.status, ended), (StatusCode::INTERNAL_SERVER_ERROR, expected), "{exit:?}");
        let text = answer.text();
        assert!(expected != 1 || text.contains("exit status 13"), "{text}");
    }
}

/// Sends a batch that ends its replica during the response, and one more request. The platform reports this exit
/// status. Returns the responses of these requests, and the number of requests that another replica received.
async fn broken_batch(exit_code: i32) -> (Vec<crate::client::Answered>, usize) {
    let world = World::new(1).await;
    let batching = Batching { max_size: 2, max_latency: Duration::from_secs(60) };
    world.serve(&[100], |route| route.batching = Some(batching)).await;
    let (mortal, address) = Mortal::start().await;
    world.put(1, "a", address).await;
    let predict = |row: &str| {
        let (address, body) = (world.address(), format!("{{\"instances\":[{row}]}}"));
        tokio::spawn(async move { once(address, post(HOST, "/v1/models/digits:predict", body)).await })
    };
    let mut clients = vec![predict("[100]")];
    mortal.holds.cancelled().await;
    clients.push(predict("[1]"));
    world.activity(1, |activity| activity.arrivals == 2).await;
    clients.push(predict("[2]"));
    mortal.ended.cancelled().await;
    let other = world.start(1, "b", ECHO).await;
    world.end(1, "a", exit_code);
    let mut answers = Vec::new();
    for client in clients {
        answers.push(client.await.unwrap());
    }
    (answers, other.requests())
}

#[tokio::test]
async fn no_request_of_a_batch_that_ended_its_replica_within_the_answer_is_sent_again() {
    let (answers, requests) = broken_batch(139).await;
    for answer in answers {
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{answer:?}");
        assert!(answer.text().contains("Exited: the program ended (exit status 139)"), "{answer:?}");
    }
    assert_eq!(requests, 0);
}

#[tokio::test]
async fn the_requests_of_a_batch_whose_replica_was_killed_within_the_answer_are_sent_again() {
    let (answers, requests) = broken_batch(137).await;
    assert!(answers.iter().all(|answer| answer.status == StatusCode::OK), "{answers:?}");
    assert_eq!(requests, 3);
}

#[tokio::test]
async fn a_request_in_a_vanished_replica_is_retried_on_another() {
    let world = World::new(1).await;
    let (hangs, echoes) = (TestReplica::start(Behaviour::Hang).await, TestReplica::start(ECHO).await);
    world.serve(&[100], |_| {}).await;
    world.put(1, "a", hangs.address).await;
    let asked = tokio::spawn(once(world.address(), post(HOST, "/", "body")));
    hangs.seen.until_busy(1).await;
    world.put(1, "b", echoes.address).await;
    world.take(1, "a").await;
    let answer = asked.await.unwrap();
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "body"));
    hangs.seen.until_busy(0).await;
}

/// A deleted pod was not ended by a request, so a request may be retried even if several pods are deleted in turn.
#[tokio::test]
async fn requests_of_several_vanished_replicas_are_retried() {
    let (world, first) = World::with(Behaviour::Hang).await;
    let asked = tokio::spawn(once(world.address(), post(HOST, "/", "body")));
    first.seen.until_busy(1).await;
    let second = world.start(1, "b", Behaviour::Hang).await;
    world.take(1, "a").await;
    second.seen.until_busy(1).await;
    let _third = world.start(1, "c", ECHO).await;
    world.take(1, "b").await;
    let answer = asked.await.unwrap();
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "body"));
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off_for_its_client_only() {
    let (world, _replica) = World::with_limited(Behaviour::Reset).await;
    let mut client = connect::<Full<Bytes>>(world.address()).await;
    let response = client.send_request(post(HOST, "/", "")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.into_body().collect().await.is_err());
    world.activity(1, |activity| activity.failed == 1 && activity.in_flight == 0).await;
    let _good = world.start(1, "b", ECHO).await;
    let answer = once(world.address(), post(HOST, "/", "x")).await;
    assert_eq!(answer.text(), "x");
}

fn said_status(_: &http::request::Parts, body: &Bytes) -> Response<TestBody> {
    let mut response = Response::new(full(""));
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    // The request's body is the status to answer with.
    headers.insert("grpc-status", HeaderValue::from_bytes(body).unwrap());
    headers.insert("weir-unserved", HeaderValue::from_static("1"));
    response
}

#[tokio::test]
async fn errors_of_the_caller_are_no_failures_of_the_revision() {
    let world = World::new(1).await;
    let gate = Arc::new(tokio::sync::Semaphore::new(1));
    world.serve(&[100], |_| {}).await;
    let _says = world.start(1, "a", Behaviour::Compute(gate, said_status)).await;
    let mut client = connect_h2(world.address()).await;
    // Codes: invalid argument, not found, unimplemented; resource exhausted; internal, unavailable.
    for code in ["3", "5", "12", "8", "13", "14"] {
        let request = grpc::call(HOST, grpc::INFER, Full::new(Bytes::from(code)));
        let ended = grpc::ended(client.send_request(request).await.unwrap()).await;
        assert_eq!(grpc::status(&ended).0, code);
        assert!(!ended.head.contains_key("weir-unserved"));
    }
    world.activity(1, |activity| (activity.succeeded, activity.refused, activity.failed) == (3, 1, 2)).await;
}

#[tokio::test]
async fn a_refused_request_is_retried_until_a_replica_takes_it() {
    let world = World::serving().await;
    let (_full, _free) = (world.start(1, "a", Behaviour::Refuse).await, world.start(1, "b", ECHO).await);
    for _ in 0..4 {
        let answer = once(world.address(), post(HOST, "/", "x")).await;
        assert_eq!(answer.text(), "x");
    }
    world.take(1, "b").await;
    let answer = once(world.address(), post(HOST, "/", "x")).await;
    assert_eq!((answer.status, answer.text()), (StatusCode::SERVICE_UNAVAILABLE, "full"));
}

#[tokio::test]
async fn the_queue_time_of_a_retried_request_is_recorded_once() {
    let (world, full) = World::with(Behaviour::Refuse).await;
    let answer = once(world.address(), post(HOST, "/", "x")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(full.requests() > 1, "{}", full.requests());
    world.activity(1, |a| (a.arrivals, a.refused, a.in_flight) == (1, 1, 0)).await;
    world.activity(1, |a| a.queue_delay.count() == 1).await;
}

#[tokio::test]
async fn a_marked_refusal_is_retried_and_the_mark_is_not_forwarded() {
    let world = World::serving().await;
    let (full, _free) =
        (world.start(1, "a", Behaviour::Refusal(Refusal::FullHttp)).await, world.start(1, "b", ECHO).await);
    for _ in 0..4 {
        let answer = once(world.address(), post(HOST, "/", "x")).await;
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, "x"));
    }
    assert!(full.requests() > 0);
    world.take(1, "b").await;
    let answer = once(world.address(), post(HOST, "/", "x")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!answer.headers.contains_key("weir-refused"), "{answer:?}");
}

#[tokio::test]
async fn a_request_refused_for_lack_of_time_is_not_retried() {
    let (world, late) = World::with(Behaviour::Refusal(Refusal::LateHttp)).await;
    for asked in 1..=3 {
        let answer = once(world.address(), post(HOST, "/", "x")).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.header("retry-after"), "1");
        assert!(!answer.headers.contains_key("weir-refused"), "{answer:?}");
        assert_eq!(late.requests(), asked);
    }
}

#[tokio::test]
async fn a_request_that_is_always_refused_fails_at_its_deadline() {
    let (world, full) = World::with(Behaviour::Refuse).await;
    let request = with(post(HOST, "/", ""), "weir-timeout", "120");
    let answer = once(world.address(), request).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT, "{answer:?}");
    // The replica got the request at once and after each ejection of 50 ms, until no time was left for another
    // ejection.
    assert!((1..=3).contains(&full.requests()), "{}", full.requests());
}

#[tokio::test]
async fn a_missed_deadline_reports_the_time_and_place_of_the_wait() {
    let (world, replica) = World::with_limited(Behaviour::Hang).await;
    let request = |ms| with(post(HOST, "/", ""), "weir-timeout", ms);
    let begun = Instant::now();
    let first = tokio::spawn(once(world.address(), request("600")));
    replica.seen.until_busy(1).await;
    let queued = once(world.address(), request("200")).await;
    assert_eq!(queued.status, StatusCode::GATEWAY_TIMEOUT);
    let text = queued.text();
    let expected = "in the queue of revision default/digits-predictor-00001, 0 requests were ahead";
    assert!(text.contains("waited 0.2") && text.contains(expected), "{text}");
    let sent = first.await.unwrap();
    assert_eq!(sent.status, StatusCode::GATEWAY_TIMEOUT);
    assert!(sent.text().contains("for replica a"), "{sent:?}");
    assert!(begun.elapsed() >= Duration::from_millis(600));
    let head = replica.seen.heads.lock().pop().unwrap();
    let left: u64 = head.headers["weir-timeout"].to_str().unwrap().parse().unwrap();
    assert!((500..=600).contains(&left), "{left}");
    replica.seen.until_busy(0).await;
    let bad = once(world.address(), request("soon")).await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
}

fn late_or_refused(head: &http::request::Parts, _: &Bytes) -> Response<TestBody> {
    let mut response = Response::new(full(""));
    *response.status_mut() = match head.uri.path() {
        "/late" => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    if head.uri.path() == "/short" {
        let mark = HeaderValue::from_static("3");
        response.headers_mut().insert("weir-refused", mark);
    }
    response
}

#[tokio::test]
async fn a_short_deadline_that_a_client_chose_is_not_counted() {
    let (world, replica) = World::with_limited(Behaviour::Hang).await;
    let request = |ms| with(post(HOST, "/", ""), "weir-timeout", ms);
    // The deadline passes at the replica and in the queue, over HTTP and over gRPC.
    let held = tokio::spawn(once(world.address(), request("900")));
    replica.seen.until_busy(1).await;
    let queued = once(world.address(), request("1")).await;
    assert_eq!(queued.status, StatusCode::GATEWAY_TIMEOUT);
    let call = grpc::call(HOST, grpc::INFER, Full::new(grpc::infer("digits")));
    let call = with(call, "grpc-timeout", "5m");
    let ended = grpc::send(world.address(), call).await;
    assert_eq!(grpc::status(&ended).0, "4");
    assert_eq!(held.await.unwrap().status, StatusCode::GATEWAY_TIMEOUT);
    // Missing the service's own timeout counts as a failure, even if the timeout is short.
    let service = |route: &mut weir_cluster::Route| route.timeout = Some(Duration::from_millis(90));
    world.serve_limited(&[100], Some(1), service).await;
    let late = once(world.address(), request("800")).await;
    assert_eq!(late.status, StatusCode::GATEWAY_TIMEOUT);
    world.activity(1, |activity| activity.failed > 0).await;
    world.activity(1, |activity| (activity.arrivals, activity.failed) == (4, 1)).await;
}

#[tokio::test]
async fn a_short_deadline_that_the_replica_saw_pass_is_not_counted() {
    let gate = Arc::new(tokio::sync::Semaphore::new(1));
    let (world, _replica) = World::with(Behaviour::Compute(gate, late_or_refused)).await;
    let short = with(post(HOST, "/late", ""), "weir-timeout", "999");
    let long = with(post(HOST, "/late", ""), "weir-timeout", "9000");
    let broken = with(post(HOST, "/broken", ""), "weir-timeout", "999");
    let marked = post(HOST, "/short", "");
    for request in [short, marked, long, broken] {
        let answer = once(world.address(), request).await;
        assert!(answer.status.is_server_error(), "{answer:?}");
        assert!(!answer.headers.contains_key("weir-refused"), "{answer:?}");
    }
    world.activity(1, |a| (a.arrivals, a.failed, a.refused, a.in_flight) == (4, 2, 0, 0)).await;
}

#[tokio::test]
async fn a_disconnected_client_frees_its_credit_and_its_queue_place() {
    let (world, replica) = World::with_limited(Behaviour::Hang).await;
    let first = tokio::spawn(once(world.address(), post(HOST, "/", "first")));
    replica.seen.until_busy(1).await;
    let second = tokio::spawn(once(world.address(), post(HOST, "/", "second")));
    world.activity(1, |activity| activity.queued == 1).await;
    second.abort();
    world.activity(1, |activity| activity.queued == 0).await;
    let third = tokio::spawn(once(world.address(), post(HOST, "/", "third")));
    world.activity(1, |activity| activity.queued == 1).await;
    first.abort();
    until("the third to be sent", || replica.requests() == 2).await;
    let bodies = replica.seen.bodies.lock().clone();
    assert_eq!(bodies, ["first", "third"]);
    third.abort();
    replica.seen.until_busy(0).await;
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let world = World::new(1).await;
    world.serve_limited(&[100], Some(1), |route| route.max_queue = 1).await;
    let replica = world.start(1, "a", Behaviour::Hang).await;
    let first = tokio::spawn(once(world.address(), post(HOST, "/", "")));
    replica.seen.until_busy(1).await;
    let second = tokio::spawn(once(world.address(), post(HOST, "/", "")));
    world.activity(1, |activity| activity.queued == 1).await;
    let answer = once(world.address(), post(HOST, "/", "")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.header("retry-after"), "1");
    assert!(answer.text().contains("is full: 1 requests"), "{answer:?}");
    world.activity(1, |activity| activity.refused == 1).await;
    first.abort();
    second.abort();
}

#[tokio::test]
async fn a_drained_gateway_answers_accepted_requests() {
    let (mut world, replica) = World::with(Behaviour::Echo(Duration::from_millis(300))).await;
    let idle = connect::<Full<Bytes>>(world.address()).await;
    let asked = tokio::spawn(once(world.address(), post(HOST, "/", "body")));
    replica.seen.until_busy(1).await;
    world.gateways[0].stop.cancel();
    let serving = world.gateways[0].serving.take().unwrap();
    assert_eq!(asked.await.unwrap().text(), "body");
    tokio::time::timeout(Duration::from_secs(20), serving).await.unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(world.address()).await.is_err());
    drop(idle);
}

#[tokio::test]
async fn a_large_body_is_streamed_and_a_small_one_is_buffered() {
    let mut options = weir_gateway::Options::new("small", weir_gateway::Scope::Local);
    options.request_buffer = 100_000;
    let world = World::of(options).await;
    let seen = Arc::new(Observed::default());
    let replica = TestReplica::sharing(ECHO, seen).await;
    world.serve(&[100], |_| {}).await;
    world.put(1, "a", replica.address).await;
    for size in [0, 99_999, 100_001, 3_000_000] {
        let body: Bytes = vec![7_u8; size].into();
        let answer = once(world.address(), post(HOST, "/", body.clone())).await;
        assert_eq!(answer.body, body);
    }
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<_, std::io::Error>>(1);
    let body = http_body_util::StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(receiver));
    let request = Request::post("/").header("host", HOST).body(body).unwrap();
    let mut client = connect(world.address()).await;
    let asked = tokio::spawn(client.send_request(request));
    for _ in 0..20 {
        let frame = http_body::Frame::data(Bytes::from(vec![1_u8; 10_000]));
        sender.send(Ok(frame)).await.unwrap();
    }
    // The body has not ended, but the replica already has the request.
    replica.seen.until_busy(1).await;
    drop(sender);
    let body = asked.await.unwrap().unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body.len(), 200_000);
}
