//! Tests that data which some clients leave unread does not delay other clients, although a gateway's gRPC calls share
//! connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use weir_cluster::{Batching, Route};
use weir_gateway::{Options, Scope};

use crate::client::{connect_h2, once, post};
use crate::grpc;
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, World, until, until_steady};

/// Number of clients that do not read. This many answers, each as large as a stream's window, exceed the usual
/// window of a connection.
const HOSTILE: usize = 12;

/// Longest time for an answer to a well-behaved client. When all calls shared one window, the answer took half a
/// minute, until the stall timeout ended the other clients.
const SOON: Duration = Duration::from_secs(5);

fn message(size: usize) -> Bytes {
    let mut message = BytesMut::new();
    message.put_u8(0);
    message.put_u32(size as u32);
    message.resize(5 + size, 0);
    message.freeze()
}

/// Returns a message of 2 MiB, more than a stream's window.
fn large() -> Bytes {
    message(2 << 20)
}

/// Starts one gateway, and a replica with this limit of concurrent requests.
async fn world(behaviour: Behaviour, concurrency: u32) -> (World, TestReplica) {
    let world = World::new(1).await;
    world.serve_limited(&[100], Some(concurrency), |_| {}).await;
    let replica = world.start(1, "a", behaviour).await;
    (world, replica)
}

/// Connects a client whose flow-control window for responses is zero.
async fn closed_window<B>(world: &World) -> http2::SendRequest<B>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let mut client = http2::Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(0);
    let (sender, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn good_call(world: &World) -> Duration {
    let begin = Instant::now();
    let (message, size) = (large(), large().len());
    let request = grpc::call(HOST, grpc::INFER, Full::new(message));
    let mut client = connect_h2(world.address()).await;
    let answer = async {
        let response = client.send_request(request).await.unwrap();
        grpc::ended(response).await
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap();
    assert_eq!(ended.trailers["grpc-status"], "0");
    assert_eq!(ended.data.len(), size);
    begin.elapsed()
}

/// Sends a request and reads only the head of its response.
pub(crate) async fn leave_unread<B>(world: &World, request: Request<B>) -> Incoming
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut client = closed_window(world).await;
    let response = client.send_request(request).await.unwrap();
    response.into_body()
}

#[tokio::test]
async fn unread_answers_do_not_delay_other_calls() {
    let (world, _replica) = world(Behaviour::Work(Duration::ZERO), 100).await;
    let mut unread = Vec::new();
    for _ in 0..HOSTILE {
        let request = grpc::call(HOST, grpc::INFER, Full::new(large()));
        unread.push(leave_unread(&world, request).await);
    }
    let took = good_call(&world).await;
    assert!(took < SOON, "{took:?}");
}

#[tokio::test]
async fn unread_streams_do_not_delay_other_calls() {
    let (world, _replica) = world(Behaviour::Mirror, 100).await;
    let path = format!("{}/ModelStreamInfer", grpc::SERVICE);
    let mut unread = Vec::new();
    let sent = Arc::new(AtomicUsize::new(0));
    for _ in 0..HOSTILE {
        // The replica sends each message back, and reads more only once the client has read it.
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let frames = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let request = grpc::call(HOST, &path, StreamBody::new(frames));
        let sent = sent.clone();
        tokio::spawn(async move {
            let frame = || Ok::<_, std::io::Error>(http_body::Frame::data(large()));
            while sender.send(frame()).await.is_ok() {
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
        unread.push(leave_unread(&world, request).await);
    }
    // The clients send nothing more once they have filled all buffers on the way.
    until_steady("the number of sent messages", || sent.load(Ordering::Relaxed)).await;
    let took = good_call(&world).await;
    assert!(took < SOON, "{took:?}");
    for body in &mut unread {
        let _ = tokio::time::timeout(Duration::from_millis(1), body.frame()).await;
    }
}

/// Checks that the gateway reads short answers itself, so that the replica's only credit is free again even if clients
/// do not read.
async fn short_answers_hold_no_credit((world, replica): (World, TestReplica), path: &str, kind: &'static str) {
    let mut unread = Vec::new();
    for _ in 0..HOSTILE {
        let mut request = grpc::call(HOST, path, Full::new(message(1000)));
        request.headers_mut().insert("content-type", kind.parse().unwrap());
        unread.push(leave_unread(&world, request).await);
    }
    let begin = Instant::now();
    let path = "/v2/models/digits/infer";
    let good = once(world.address(), post(HOST, path, message(1000)));
    let good = tokio::time::timeout(Duration::from_secs(60), good).await.unwrap();
    assert_eq!(good.status, StatusCode::OK);
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    assert_eq!(replica.requests(), HOSTILE + 1);
}

#[tokio::test]
async fn short_answers_over_grpc_hold_no_credit() {
    let world = world(Behaviour::Work(Duration::ZERO), 1).await;
    short_answers_hold_no_credit(world, grpc::INFER, "application/grpc").await;
}

/// The service has batching, but these calls cannot share a batch.
#[tokio::test]
async fn short_answers_of_a_service_with_batches_hold_no_credit() {
    let world = World::new(1).await;
    let replica = TestReplica::start(Behaviour::Work(Duration::ZERO)).await;
    let batching = Batching { max_size: 8, max_latency: Duration::ZERO };
    let batched = |route: &mut Route| route.batching = Some(batching);
    world.serve_limited(&[100], Some(1), batched).await;
    world.put(1, "a", replica.address).await;
    short_answers_hold_no_credit((world, replica), grpc::INFER, "application/grpc").await;
}

#[tokio::test]
async fn short_answers_over_http_hold_no_credit() {
    let path = "/v2/models/digits/infer";
    for behaviour in [Behaviour::Echo(Duration::ZERO), Behaviour::Work(Duration::ZERO)] {
        // The first replica's answer has a known length, and the second's is chunked.
        let world = world(behaviour, 1).await;
        short_answers_hold_no_credit(world, path, "application/octet-stream").await;
    }
}

/// A stream without a message holds no credit, for however long it stays open.
#[tokio::test]
async fn streams_without_a_message_hold_no_credit() {
    let (world, replica) = world(Behaviour::Mirror, 1).await;
    let path = format!("{}/ModelStreamInfer", grpc::SERVICE);
    let mut resting = Vec::new();
    for _ in 0..HOSTILE {
        let (sender, receiver) = tokio::sync::mpsc::channel::<Result<_, std::io::Error>>(1);
        let frames = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let request = grpc::call(HOST, &path, StreamBody::new(frames));
        let mut client = connect_h2(world.address()).await;
        let asked = tokio::spawn(async move { client.send_request(request).await });
        resting.push((sender, asked));
    }
    let took = good_call(&world).await;
    assert!(took < SOON, "{took:?}");
    assert_eq!(replica.requests(), 1);
    // The first message brings the stream to the replica.
    let (sender, asked) = resting.pop().unwrap();
    sender.send(Ok(http_body::Frame::data(message(9)))).await.unwrap();
    let mut answer = asked.await.unwrap().unwrap().into_body();
    let frame = answer.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), message(9));
    assert_eq!(replica.requests(), 2);
}

async fn short_post(world: &World) {
    let request = post(HOST, "/v2/models/digits/infer", message(9));
    let answer = tokio::time::timeout(SOON, once(world.address(), request));
    assert_eq!(answer.await.unwrap().status, StatusCode::OK);
}

/// Size of a body in bytes, of which the gateway can buffer half.
const LONG: usize = 2000;

/// Starts a gateway that can buffer half of such a body, and a replica that takes one request at a time.
async fn world_of_long_bodies(behaviour: Behaviour) -> (World, TestReplica) {
    let mut options = Options::new("gateway-0", Scope::Local);
    options.request_buffer = LONG / 2;
    let world = World::of(options).await;
    world.serve_limited(&[100], Some(1), |_| {}).await;
    let replica = world.start(1, "a", behaviour).await;
    (world, replica)
}

/// Connects a client and sends half of its body.
async fn half_sent(world: &World) -> TcpStream {
    let head = format!("POST /v2/models/digits/infer HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: {LONG}\r\n\r\n");
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&[b'0'; LONG / 2]).await.unwrap();
    stream
}

/// An upload that is too long for the buffer lends the replica's only credit while it stalls, and is answered once it
/// is complete.
#[tokio::test]
async fn stalled_uploads_lend_their_credit() {
    let (world, replica) = world_of_long_bodies(Behaviour::Echo(Duration::ZERO)).await;
    let mut slow = Vec::new();
    for _ in 0..HOSTILE {
        slow.push(half_sent(&world).await);
    }
    replica.seen.until_busy(HOSTILE).await;
    short_post(&world).await;
    for stream in &mut slow {
        stream.write_all(&[b'0'; LONG / 2]).await.unwrap();
        let mut answer = [0; 15];
        let read = stream.read_exact(&mut answer);
        tokio::time::timeout(SOON, read).await.unwrap().unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }
    // The end of an upload does not give back a credit that is lent.
    short_post(&world).await;
}

/// A complete upload is the replica's work, so it holds its credit.
#[tokio::test]
async fn complete_uploads_hold_their_credit() {
    let gate = Arc::new(Semaphore::new(1));
    let compute = Behaviour::Compute(Arc::clone(&gate), |_, _| http::Response::default());
    let (world, replica) = world_of_long_bodies(compute).await;
    let mut slow = [half_sent(&world).await, half_sent(&world).await];
    replica.seen.until_busy(2).await;
    // A third request is served because both uploads have lent the credit.
    short_post(&world).await;
    gate.forget_permits(1);
    for stream in &mut slow {
        stream.write_all(&[b'0'; LONG / 2]).await.unwrap();
    }
    until("the uploads to end", || replica.seen.bodies.lock().len() == 3).await;
    let early = tokio::time::timeout(Duration::from_millis(500), short_post(&world));
    assert!(early.await.is_err(), "a credit in use was given to another");
    assert_eq!(replica.requests(), 3);
    gate.add_permits(9);
    short_post(&world).await;
}

/// A stream that has sent a message and received the answer.
struct AnsweredStream {
    messages: tokio::sync::mpsc::Sender<Result<http_body::Frame<Bytes>, std::io::Error>>,
    answers: Incoming,
}

impl AnsweredStream {
    async fn open(world: &World) -> Self {
        let path = format!("{}/ModelStreamInfer", grpc::SERVICE);
        let (messages, receiver) = tokio::sync::mpsc::channel(1);
        let frames = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let request = grpc::call(HOST, &path, StreamBody::new(frames));
        let mut client = connect_h2(world.address()).await;
        messages.send(Ok(http_body::Frame::data(message(9)))).await.unwrap();
        let answers = client.send_request(request).await.unwrap().into_body();
        let mut stream = Self { messages, answers };
        stream.read().await;
        stream
    }

    async fn read(&mut self) {
        let frame = self.answers.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), message(9));
    }

    async fn ask(&mut self) {
        let frame = http_body::Frame::data(message(9));
        self.messages.send(Ok(frame)).await.unwrap();
        self.read().await;
    }
}

/// The only credit of a replica passes from one stream to the next; each stream has its answers and stays open.
#[tokio::test]
async fn resting_streams_lend_their_credit() {
    let gate = Arc::new(Semaphore::new(1));
    let (world, replica) = world(Behaviour::Answer(gate), 1).await;
    let mut streams = Vec::new();
    for _ in 0..HOSTILE {
        let open = AnsweredStream::open(&world);
        streams.push(tokio::time::timeout(SOON, open).await.unwrap());
    }
    let took = good_call(&world).await;
    assert!(took < SOON, "{took:?}");
    assert_eq!(replica.requests(), HOSTILE + 1);
    // Each stream continues at the replica, although there are more streams than credits.
    for _ in 0..3 {
        for stream in &mut streams {
            tokio::time::timeout(SOON, stream.ask()).await.unwrap();
        }
    }
    assert_eq!(replica.requests(), HOSTILE + 1);
    // The end of a stream does not give back a credit that is lent.
    drop(streams);
    let took = good_call(&world).await;
    assert!(took < SOON, "{took:?}");
}

/// An unanswered message holds the credit, also after a rest of the stream.
#[tokio::test]
async fn a_message_that_waits_for_its_answer_holds_the_credit() {
    let gate = Arc::new(Semaphore::new(1));
    let (world, _replica) = world(Behaviour::Answer(Arc::clone(&gate)), 1).await;
    let mut first = AnsweredStream::open(&world).await;
    let mut second = tokio::time::timeout(SOON, AnsweredStream::open(&world)).await.unwrap();
    gate.forget_permits(1);
    first.messages.send(Ok(http_body::Frame::data(message(9)))).await.unwrap();
    let third = AnsweredStream::open(&world);
    let early = tokio::time::timeout(Duration::from_millis(500), third).await;
    assert!(early.is_err(), "a credit in use was given to another");
    gate.add_permits(1);
    first.read().await;
    tokio::time::timeout(SOON, second.ask()).await.unwrap();
}

/// A replica works on a stream's first message although it has not sent the head of its response.
#[tokio::test]
async fn a_first_message_holds_the_credit_before_the_response_begins() {
    let gate = Arc::new(Semaphore::new(0));
    let (world, replica) = world(Behaviour::LateHead(Arc::clone(&gate)), 1).await;
    let streams = async { tokio::join!(AnsweredStream::open(&world), AnsweredStream::open(&world)) };
    let mut streams = std::pin::pin!(streams);
    let early = tokio::time::timeout(Duration::from_millis(500), &mut streams).await;
    assert!(early.is_err());
    assert_eq!(replica.requests(), 1, "a credit in use was given to another");
    gate.add_permits(1);
    tokio::time::timeout(SOON, streams).await.unwrap();
}
