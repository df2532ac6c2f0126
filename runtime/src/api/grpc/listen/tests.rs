use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use weir_ops::telemetry::Settings;
use weir_serve::byte_budget::ByteBudget;

use super::*;
use crate::api::grpc::GrpcOptions;
use crate::backend::{UnguardedOperators, WarmUpFailures};
use crate::incoming::shared_memory::SharedMemory;
use crate::launch::{LaunchOptions, Launcher};
use crate::metrics::{self, GpuMeter, ModelSample, Sources};
use crate::repository::{AutoComplete, ControlMode, ReadinessPolicy, Repository, RepositoryOptions};
use crate::server::{Identity, Parts, Server};
use crate::settings::log::{LogSettings, LogStore};
use crate::settings::trace::{TraceSettings, TraceStore};

/// Timeout that is longer than any test needs on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Time that is longer than any test runs.
const LONG: Duration = Duration::from_secs(3_600);

#[derive(Debug)]
struct NoModels;

impl Sources for NoModels {
    fn models(&self) -> Vec<ModelSample> {
        Vec::new()
    }
}

/// A server that has no models.
fn server(stop: &CancellationToken) -> Server {
    let options = RepositoryOptions {
        control: ControlMode::None,
        readiness: ReadinessPolicy::Strict,
        load_threads: NonZeroUsize::MIN,
        retries: 0,
        auto_complete: AutoComplete::On,
        config_name: None,
        example: None,
        max_upload: 0,
        retire_limit: Duration::ZERO,
        remotes: Vec::new(),
    };
    let launch = LaunchOptions {
        gpus: Vec::new(),
        max_queued: 1,
        warm_up: Duration::ZERO,
        batch_limit: crate::engine::BatchLimit::Measured,
        warm_up_failures: WarmUpFailures::Refuse,
        unguarded_operators: UnguardedOperators::Only(Vec::new()),
        model_code: crate::backend::ModelCode::Allow,
        example: None,
    };
    let launcher = Launcher::new(Vec::new(), launch);
    Server::new(Parts {
        identity: Identity { name: "test".to_owned(), version: "0".to_owned(), extensions: &[] },
        repository: Arc::new(Repository::new(&[], None, options, launcher).unwrap()),
        memory: SharedMemory::new(None, ByteBudget::default()),
        trace: TraceStore::new(TraceSettings::default()),
        log: LogStore::new(LogSettings::at_start(&Settings::default()), Arc::new(|_| Ok(()))),
        gpu_meter: GpuMeter::default(),
        stop: stop.clone(),
    })
}

struct Port {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

fn limits(stall: Duration) -> ConnectionLimits {
    ConnectionLimits { total: 10, per_client: 10, idle: LONG, stall, pace: weir_serve::Pace::default() }
}

fn port(connections: ConnectionLimits) -> Port {
    aged_port(connections, None)
}

/// A port whose connections are asked to close at this age.
fn aged_port(connections: ConnectionLimits, max_connection_age: Option<Duration>) -> Port {
    let stop = CancellationToken::new();
    let listener = weir_serve::bind((Ipv4Addr::LOCALHOST, 0).into(), weir_serve::PortUse::Exclusive).unwrap();
    let address = listener.local_addr().unwrap();
    let grpc = Grpc::new(Arc::new(server(&stop)), GrpcOptions::default());
    let mut registry = Registry::default();
    let requests = metrics::register(&mut registry, Arc::new(NoModels), metrics::Options::default());
    let options = GrpcListenOptions {
        keepalive_time: None,
        keepalive_timeout: LONG,
        max_connection_age,
        max_connection_age_grace: None,
        connections,
        max_message: 1 << 20,
        max_decompressed: 1 << 20,
        gzip_responses: false,
    };
    let serving = serve(listener, grpc, requests, options, stop.clone());
    Port { address, stop, serving: tokio::spawn(serving) }
}

impl Port {
    async fn ended(self) {
        self.stop.cancel();
        tokio::time::timeout(TIMEOUT, self.serving).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_message_that_stalls_is_refused() {
    let port = port(limits(Duration::from_millis(200)));
    let tcp = TcpStream::connect(port.address).await.unwrap();
    let io = TokioIo::new(tcp);
    let (mut client, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let (pieces, receiver) = mpsc::channel(1);
    // The prefix announces a message of 100 bytes, and two of them follow.
    let piece = Bytes::from_static(&[0, 0, 0, 0, 100, 10, 1]);
    pieces.send(Ok::<_, Infallible>(Frame::data(piece))).await.unwrap();
    let request = Request::post("http://localhost/inference.GRPCInferenceService/ModelInfer")
        .header("content-type", "application/grpc")
        .body(StreamBody::new(ReceiverStream::new(receiver)))
        .unwrap();
    let answer = tokio::time::timeout(TIMEOUT, client.send_request(request));
    let answer = answer.await.unwrap().unwrap();
    let headers = answer.headers().clone();
    assert_eq!(headers["grpc-status"], "3", "{headers:?}");
    let message = headers["grpc-message"].to_str().unwrap();
    assert!(message.contains("stalled"), "{message}");
    assert!(answer.into_body().collect().await.is_ok());
    drop((pieces, client));
    connection.await.unwrap().unwrap();
    port.ended().await;
}

#[tokio::test]
async fn clients_without_calls_do_not_delay_the_end() {
    let port = port(limits(LONG));
    // One client sends half a preface. The other sends a whole one and nothing after it, not even the answer to a ping.
    let whole = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let mut clients = Vec::new();
    for bytes in [&whole[..10], whole] {
        let mut tcp = TcpStream::connect(port.address).await.unwrap();
        tcp.write_all(bytes).await.unwrap();
        // The server sends its settings as soon as it has accepted the connection.
        tcp.readable().await.unwrap();
        clients.push(tcp);
    }
    port.ended().await;
}

/// Limits after which the server closes a client's connection.
fn short() -> ConnectionLimits {
    let short = Duration::from_millis(300);
    ConnectionLimits { idle: short, pace: weir_serve::Pace { grace: short, rate: 1024 }, ..limits(short) }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[tokio::test]
async fn connections_without_a_call_end() {
    const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingpong";
    let port = port(short());
    for (begin, drip) in [(&b""[..], &b""[..]), (&PREFACE[..10], b""), (PREFACE, b""), (PREFACE, PING)] {
        let tcp = TcpStream::connect(port.address).await.unwrap();
        let (mut reader, mut writer) = tcp.into_split();
        writer.write_all(begin).await.unwrap();
        let dripping = tokio::spawn(async move {
            while writer.write_all(drip).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let mut received = Vec::new();
        // A reset counts as an end too.
        let _ = tokio::time::timeout(TIMEOUT, reader.read_to_end(&mut received)).await.unwrap();
        dripping.abort();
    }
    port.ended().await;
}

#[tokio::test]
async fn connections_without_a_call_end_at_their_age() {
    let port = aged_port(limits(LONG), Some(Duration::from_millis(100)));
    for begin in [&b""[..], &PREFACE[..10], PREFACE] {
        let mut tcp = TcpStream::connect(port.address).await.unwrap();
        tcp.write_all(begin).await.unwrap();
        let mut received = Vec::new();
        // A reset counts as an end too.
        let _ = tokio::time::timeout(TIMEOUT, tcp.read_to_end(&mut received)).await.unwrap();
    }
    port.ended().await;
}

/// Sends a call with these headers; returns the head and the body of the response.
async fn response_to(port: &Port, path: &str, headers: &[(&str, &str)]) -> (http::response::Parts, Bytes) {
    let tcp = TcpStream::connect(port.address).await.unwrap();
    let io = TokioIo::new(tcp);
    let (mut client, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::post(format!("http://localhost{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let empty = http_body_util::Full::new(Bytes::from_static(&[0; 5]));
    let answer = client.send_request(request.body(empty).unwrap());
    let answer = tokio::time::timeout(TIMEOUT, answer).await.unwrap().unwrap();
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap();
    (head, body.to_bytes())
}

#[tokio::test]
async fn requests_that_are_not_grpc_get_an_http_error() {
    let port = port(limits(LONG));
    let paths = ["ServerLive", "ModelInfer"].map(|call| format!("/inference.GRPCInferenceService/{call}"));
    for path in &paths {
        for kind in ["application/json", "application/grpc-web", "text/plain"] {
            let (head, body) = response_to(&port, path, &[("content-type", kind)]).await;
            assert_eq!(head.status, 415, "{path} {kind}");
            assert_eq!(head.headers["content-type"], "application/json");
            let body = String::from_utf8(body.to_vec()).unwrap();
            assert!(body.contains("this port speaks gRPC"), "{body}");
        }
        let (head, _) = response_to(&port, path, &[]).await;
        assert_eq!(head.status, 415, "{path} without a type");
        let (head, _) = response_to(&port, path, &[("content-type", "application/grpc+proto")]).await;
        assert_eq!(head.status, 200);
    }
    port.ended().await;
}

#[tokio::test]
async fn http1_requests_get_an_http1_error() {
    let port = port(limits(LONG));
    for method in ["GET", "POST", "HEAD"] {
        let mut tcp = TcpStream::connect(port.address).await.unwrap();
        let head = format!("{method} /v2/health/ready HTTP/1.1\r\nhost: x\r\n\r\n");
        tcp.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(TIMEOUT, tcp.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 415 "), "{answer}");
        assert!(answer.contains("this port speaks gRPC"), "{answer}");
    }
    port.ended().await;
}

#[tokio::test]
async fn an_invalid_timeout_is_refused_in_each_call() {
    let port = port(limits(LONG));
    for call in ["ModelInfer", "ServerLive", "ModelStreamInfer"] {
        let path = format!("/inference.GRPCInferenceService/{call}");
        for timeout in ["5x", "", "123456789m"] {
            let headers = [("content-type", "application/grpc"), ("grpc-timeout", timeout)];
            let (head, _) = response_to(&port, &path, &headers).await;
            assert_eq!(head.headers["grpc-status"], "3", "{call} {timeout}");
            let message = head.headers["grpc-message"].to_str().unwrap();
            assert!(message.contains("grpc-timeout"), "{message}");
        }
    }
    port.ended().await;
}

#[tokio::test]
async fn a_slow_message_is_refused_in_each_call() {
    let port = port(short());
    for call in ["ModelInfer", "ModelMetadata", "ModelStreamInfer"] {
        let tcp = TcpStream::connect(port.address).await.unwrap();
        let io = TokioIo::new(tcp);
        let (mut client, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
        let connection = tokio::spawn(connection);
        let (pieces, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let begin = Bytes::from_static(&[0, 0, 0, 200, 0, 10]);
            let mut piece = begin;
            while pieces.send(Ok::<_, Infallible>(Frame::data(piece))).await.is_ok() {
                piece = Bytes::from_static(b"x");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let request = Request::post(format!("http://localhost/inference.GRPCInferenceService/{call}"))
            .header("content-type", "application/grpc")
            .body(StreamBody::new(ReceiverStream::new(receiver)))
            .unwrap();
        let answer = tokio::time::timeout(TIMEOUT, async {
            let answer = client.send_request(request).await.unwrap();
            let mut headers = answer.headers().clone();
            let body = answer.into_body().collect().await.unwrap();
            headers.extend(body.trailers().cloned().unwrap_or_default());
            headers
        });
        let headers = answer.await.unwrap();
        assert_eq!(headers["grpc-status"], "3", "{call}: {headers:?}");
        drop(client);
        connection.abort();
    }
    port.ended().await;
}
