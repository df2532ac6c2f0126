//! Tests of gRPC on the same port as HTTP.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use weir_gateway::{Options, Scope};
use weir_protocol::grpc::proto;

use crate::client::{connect_h2, once, post, with};
use crate::replica::{Behaviour, Refusal};
use crate::world::{HOST, World};

pub(crate) const SERVICE: &str = "/inference.GRPCInferenceService";

/// Path of the call that infers.
pub(crate) const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

fn framed(message: &impl Message) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_u32(message.encoded_len() as u32);
    message.encode(&mut out).unwrap();
    out.freeze()
}

pub(crate) fn infer(model: &str) -> Bytes {
    framed(&proto::ModelInferRequest { model_name: model.to_owned(), ..Default::default() })
}

pub(crate) fn call<B>(host: &str, path: &str, body: B) -> Request<B> {
    Request::post(format!("http://{host}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .unwrap()
}

pub(crate) struct Ended {
    pub(crate) head: HeaderMap,
    pub(crate) data: Bytes,
    pub(crate) trailers: HeaderMap,
}

pub(crate) async fn ended(response: Response<Incoming>) -> Ended {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned();
    Ended { trailers: trailers.unwrap_or_else(|| parts.headers.clone()), head: parts.headers, data: body.to_bytes() }
}

/// Sends a call over a connection of its own.
pub(crate) async fn send<B>(gateway: SocketAddr, request: Request<B>) -> Ended
where
    B: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let mut sender = connect_h2(gateway).await;
    ended(sender.send_request(request).await.unwrap()).await
}

async fn unary(world: &World, host: &str, path: &str, body: Bytes) -> Ended {
    send(world.address(), call(host, path, Full::new(body))).await
}

pub(crate) fn status(ended: &Ended) -> (&str, String) {
    let message = ended.trailers.get("grpc-message");
    let message = message.map_or("", |message| message.to_str().unwrap());
    let message = message.replace("%20", " ").replace("%22", "\"");
    (ended.trailers["grpc-status"].to_str().unwrap(), message)
}

#[tokio::test]
async fn a_call_is_routed_by_host_path_and_model() {
    let (world, replica) = World::with(Behaviour::Mirror).await;
    let path = format!("{SERVICE}/ModelInfer");
    for (host, path) in
        [(HOST, path.clone()), ("localhost", format!("/serving/default/digits{path}")), ("localhost", path.clone())]
    {
        let ended = unary(&world, host, &path, infer("digits")).await;
        assert_eq!(status(&ended).0, "0");
        assert_eq!(ended.data, infer("digits"));
        assert_eq!(ended.head["weir-revision"], "digits-predictor-00001");
        let timing = ended.trailers["server-timing"].to_str().unwrap();
        assert!(timing.starts_with("queue;dur="), "{timing}");
        let head = replica.seen.heads.lock().pop().unwrap();
        assert_eq!(head.uri.path(), INFER);
        assert_eq!(head.uri.host(), Some(host));
    }
    let lost = unary(&world, "localhost", &path, infer("other")).await;
    let (code, message) = status(&lost);
    assert_eq!(code, "5");
    assert!(message.contains("known services: default/digits"), "{message}");
    world.activity(1, |a| a.succeeded == 3 && a.failed == 0 && a.in_flight == 0).await;
}

#[tokio::test]
async fn calls_to_the_server_are_answered_for_all_services() {
    let world = World::serving().await;
    let at = |rpc: &str| format!("{SERVICE}/{rpc}");
    let live = unary(&world, "localhost", &at("ServerLive"), framed(&proto::ServerLiveRequest {})).await;
    assert_eq!(status(&live).0, "0");
    let message = proto::ServerLiveResponse::decode(live.data.slice(5..)).unwrap();
    assert!(message.live);
    let index = framed(&proto::RepositoryIndexRequest::default());
    let index = unary(&world, "localhost", &at("RepositoryIndex"), index).await;
    let index = proto::RepositoryIndexResponse::decode(index.data.slice(5..)).unwrap();
    assert_eq!(index.models[0].name, "digits");
    let load = unary(&world, "localhost", &at("RepositoryModelLoad"), infer("digits")).await;
    assert_eq!(status(&load).0, "12");
    let every = framed(&proto::ModelStatisticsRequest::default());
    let every = unary(&world, "localhost", &at("ModelStatistics"), every).await;
    assert_eq!(status(&every).0, "12");
}

#[tokio::test]
async fn an_unknown_model_is_not_ready() {
    let world = World::serving().await;
    let asked = proto::ModelReadyRequest { name: "other".to_owned(), ..Default::default() };
    let path = format!("{SERVICE}/ModelReady");
    let reply = unary(&world, "localhost", &path, framed(&asked)).await;
    assert_eq!(status(&reply).0, "0");
    let reply = proto::ModelReadyResponse::decode(reply.data.slice(5..)).unwrap();
    assert!(!reply.ready);
}

/// Protobuf leaves the order of fields to the encoder. Here the name comes last, in a frame of its own.
#[tokio::test]
async fn a_model_is_found_behind_its_tensors() {
    let (world, replica) = World::with(Behaviour::Mirror).await;
    let tensors =
        proto::ModelInferRequest { raw_input_contents: vec![Bytes::from(vec![7_u8; 20_000])], ..Default::default() };
    let message = [&tensors.encode_to_vec()[..], &infer("digits")[5..]].concat();
    let mut whole = BytesMut::new();
    whole.put_u8(0);
    whole.put_u32(message.len() as u32);
    whole.put_slice(&message);
    let whole = whole.freeze();
    for rpc in ["ModelInfer", "ModelStreamInfer"] {
        let pieces = [whole.slice(..3), Bytes::new(), whole.slice(3..17_000), whole.slice(17_000..)];
        let frames = pieces.map(|piece| Ok::<_, io::Error>(Frame::data(piece)));
        let body = StreamBody::new(tokio_stream::iter(frames));
        let path = format!("{SERVICE}/{rpc}");
        let request = call("localhost", &path, body);
        let reply = send(world.address(), request).await;
        assert_eq!(status(&reply), ("0", String::new()), "{rpc}");
        assert_eq!(reply.data, whole, "{rpc}");
    }
    assert_eq!(replica.requests(), 2);
}

/// The message is streamed, and the gateway reads its beginning nevertheless.
#[tokio::test]
async fn a_model_is_found_in_a_message_too_long_for_the_buffer() {
    let mut options = Options::new("small", Scope::Local);
    options.request_buffer = 1000;
    let (world, replica) = World::of_with(options, Behaviour::Mirror).await;
    let message = framed(&proto::ModelInferRequest {
        model_name: "digits".to_owned(),
        raw_input_contents: vec![Bytes::from(vec![7_u8; 100_000])],
        ..Default::default()
    });
    let mut request = call("localhost", INFER, Full::new(message.clone()));
    let length = http::HeaderValue::from(message.len());
    request.headers_mut().insert("content-length", length);
    let reply = send(world.address(), request).await;
    assert_eq!(status(&reply), ("0", String::new()));
    assert_eq!(reply.data, message);
    assert_eq!(replica.requests(), 1);
}

/// gRPC requires the status and the list of supported encodings.
#[tokio::test]
async fn an_unreadable_model_name_is_refused_with_the_reason() {
    let world = World::serving().await;
    let packed = [&[1][..], &infer("digits")[1..]].concat();
    let mut request = call("localhost", INFER, Full::new(Bytes::from(packed)));
    let snappy = http::HeaderValue::from_static("snappy");
    request.headers_mut().insert("grpc-encoding", snappy);
    let refused = send(world.address(), request).await;
    let (code, message) = status(&refused);
    assert_eq!(code, "12", "{message}");
    assert!(message.contains("\"snappy\""), "{message}");
    assert_eq!(refused.head["grpc-accept-encoding"], "identity,deflate,gzip");
}

#[tokio::test]
async fn a_message_without_a_model_name_matches_no_service() {
    let world = World::serving().await;
    for garbage in [&b"\0\0\0\0\x01\x07"[..], b"\0\0\0\0\0"] {
        let reply = unary(&world, "localhost", INFER, Bytes::from_static(garbage)).await;
        assert_eq!(status(&reply).0, "5");
    }
}

/// Servers read the last of several names, too.
#[tokio::test]
async fn the_last_of_several_names_of_a_message_counts() {
    let (world, replica) = World::with(Behaviour::Mirror).await;
    for (names, code) in [(["other", "digits"], "0"), (["digits", "other"], "5")] {
        let message = names.map(|name| infer(name).slice(5..)).concat();
        let body = [&(message.len() as u64).to_be_bytes()[3..], &message].concat();
        let reply = unary(&world, "localhost", INFER, body.into()).await;
        assert_eq!(status(&reply).0, code, "{names:?}");
    }
    assert_eq!(replica.requests(), 1);
}

#[tokio::test]
async fn a_call_over_http1_is_refused_because_it_needs_http2() {
    let (world, replica) = World::with(Behaviour::Mirror).await;
    for host in [HOST, "localhost"] {
        let request = post(host, INFER, infer("digits"));
        let answer = once(world.address(), with(request, "content-type", "application/grpc")).await;
        assert_eq!(answer.status, http::StatusCode::OK);
        assert_eq!(answer.header("content-type"), "application/grpc");
        assert_eq!((answer.header("grpc-status"), answer.text()), ("12", ""));
        let message = answer.header("grpc-message");
        assert!(message.contains("grpc_pass"), "{message}");
    }
    assert_eq!(replica.requests(), 0);
}

#[tokio::test]
async fn both_directions_stream_at_once() {
    let (world, _replica) = World::with(Behaviour::Mirror).await;
    for (host, path) in [
        (HOST, format!("{SERVICE}/ModelStreamInfer")),
        ("localhost", format!("{SERVICE}/ModelStreamInfer")),
        (HOST, "/some.Other/Stream".to_owned()),
    ] {
        let (messages, receiver) = mpsc::channel::<Result<Frame<Bytes>, io::Error>>(1);
        let mut sender = connect_h2(world.address()).await;
        let body = StreamBody::new(ReceiverStream::new(receiver));
        let asked = tokio::spawn(sender.send_request(call(host, &path, body)));
        messages.send(Ok(Frame::data(infer("digits")))).await.unwrap();
        let mut body = asked.await.unwrap().unwrap().into_body();
        let mut echoed = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(echoed, infer("digits"), "{path}");
        for number in 0..5_u8 {
            let message = Bytes::from(vec![number; 100]);
            messages.send(Ok(Frame::data(message.clone()))).await.unwrap();
            echoed = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(echoed.remaining(), 100);
            assert_eq!(echoed, message);
        }
        drop(messages);
        let trailers = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
    }
}

#[tokio::test]
async fn failures_have_a_grpc_status() {
    let (world, replica) = World::with_limited(Behaviour::Hang).await;
    let mut request = call(HOST, INFER, Full::new(infer("digits")));
    let timeout = http::HeaderValue::from_static("200m");
    request.headers_mut().insert("grpc-timeout", timeout);
    let late = send(world.address(), request).await;
    let (code, message) = status(&late);
    assert_eq!(code, "4");
    assert!(message.contains("for replica a"), "{message}");
    let head = replica.seen.heads.lock().pop().unwrap();
    let left = head.headers["grpc-timeout"].to_str().unwrap().strip_suffix('u').unwrap();
    assert!(left.parse::<u64>().unwrap() <= 200_000);
    replica.seen.until_busy(0).await;
    world.take(1, "a").await;
    let _replica = world.start(1, "b", Behaviour::Reset).await;
    let broken = unary(&world, HOST, INFER, infer("digits")).await;
    let (code, message) = status(&broken);
    assert_eq!(code, "14", "{message}");
}

#[tokio::test]
async fn only_a_marked_refusal_is_retried() {
    let world = World::new(1).await;
    world.serve(&[100], |_| {}).await;
    let large = world.start(1, "a", Behaviour::Refusal(Refusal::TooLargeGrpc)).await;
    let answer = unary(&world, HOST, INFER, infer("digits")).await;
    assert_eq!((status(&answer).0, large.requests()), ("8", 1));
    world.take(1, "a").await;
    let (full, _free) = (
        world.start(1, "b", Behaviour::Refusal(Refusal::FullGrpc)).await,
        world.start(1, "c", Behaviour::Mirror).await,
    );
    for _ in 0..4 {
        let answer = unary(&world, HOST, INFER, infer("digits")).await;
        assert_eq!(status(&answer).0, "0");
    }
    assert!(full.requests() > 0);
    world.take(1, "c").await;
    let answer = unary(&world, HOST, INFER, infer("digits")).await;
    assert_eq!(status(&answer).0, "8");
    assert!(!answer.head.contains_key("weir-refused"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_when_a_replica_dies() {
    let world = World::new(1).await;
    world.serve_limited(&[100], Some(8), |_| {}).await;
    let first = world.start(1, "a", Behaviour::Echo(Duration::from_secs(10))).await;
    let sender = connect_h2(world.address()).await;
    let asked: Vec<_> = (0..8)
        .map(|_| {
            let mut sender = sender.clone();
            let request = call(HOST, INFER, Full::new(infer("digits")));
            tokio::spawn(async move { ended(sender.send_request(request).await.unwrap()).await })
        })
        .collect();
    first.seen.until_busy(8).await;
    let _second = world.start(1, "b", Behaviour::Mirror).await;
    drop(first);
    for asked in asked {
        let ended = asked.await.unwrap();
        assert_eq!(status(&ended).0, "0");
        assert_eq!(ended.data, infer("digits"));
    }
}

#[tokio::test]
async fn an_answered_stream_that_reaches_its_deadline_is_no_failure() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(1));
    let (world, _replica) = World::with(Behaviour::Answer(gate)).await;
    let (messages, receiver) = mpsc::channel::<io::Result<_>>(1);
    let path = format!("{SERVICE}/ModelStreamInfer");
    let mut request = call(HOST, &path, StreamBody::new(ReceiverStream::new(receiver)));
    let timeout = http::HeaderValue::from_static("1500m");
    request.headers_mut().insert("grpc-timeout", timeout);
    let message = Frame::data(infer("digits"));
    messages.send(Ok(message)).await.unwrap();
    let ended = send(world.address(), request).await;
    assert_eq!((status(&ended).0, &ended.data), ("4", &infer("digits")));
    world.activity(1, |a| (a.arrivals, a.failed, a.in_flight) == (1, 0, 0)).await;
    drop(messages);
}

/// A stream can be sent only once, but nothing of it is sent before a replica accepts a connection.
#[tokio::test]
async fn a_stream_is_tried_again_while_replicas_refuse_connections() {
    let world = World::serving().await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    world.put(1, "a", closed).await;
    let (messages, receiver) = mpsc::channel::<io::Result<_>>(1);
    messages.send(Ok(Frame::data(infer("digits")))).await.unwrap();
    let path = format!("{SERVICE}/ModelStreamInfer");
    let mut client = connect_h2(world.address()).await;
    let request = call(HOST, &path, StreamBody::new(ReceiverStream::new(receiver)));
    let asked = tokio::spawn(client.send_request(request));
    world.activity(1, |activity| activity.queue_delay.count() == 1).await;
    let _replica = world.start(1, "b", Behaviour::Mirror).await;
    drop(messages);
    let ended = ended(asked.await.unwrap().unwrap()).await;
    assert_eq!((status(&ended), &ended.data), (("0", String::new()), &infer("digits")));
}

#[tokio::test]
async fn a_stream_without_pauses_is_forwarded_before_its_end() {
    let (world, replica) = World::with(Behaviour::Mirror).await;
    let (messages, receiver) = mpsc::channel::<io::Result<_>>(1);
    let sending = tokio::spawn(async move {
        let empty = || Ok(Frame::data(Bytes::from_static(&[0; 5])));
        while messages.send(empty()).await.is_ok() {}
    });
    let mut client = connect_h2(world.address()).await;
    let request = call(HOST, "/some.Other/Stream", StreamBody::new(ReceiverStream::new(receiver)));
    let asked = tokio::spawn(client.send_request(request));
    replica.seen.until_busy(1).await;
    sending.abort();
    drop(asked);
}
