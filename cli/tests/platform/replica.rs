//! A model server that replaces a container: this test binary, if an environment variable is set. It serves HTTP/1.1
//! and gRPC on one port, answers every inference with its label after its service time, and shuts down gracefully.

mod config;
mod responses;

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::shared_dir::Fault;
use config::ReplicaConfig;
pub(crate) use config::{GATE, LABEL, SERVICE_MS, SHARED_DIR};
use responses::ResponseBody;

/// Lifetime of a server, longer than any test, after which a leftover server ends by itself.
const LIFETIME: Duration = Duration::from_secs(300);

/// Most bytes that are read before a response that is not HTTP.
const FIRST_BYTES: usize = 1024;

/// First bytes of a readiness probe.
const READINESS_PROBE: &[u8] = b"GET /v2/health/ready";

/// Returns the command that runs this binary as a server.
pub(crate) fn command() -> Vec<String> {
    let this = std::env::current_exe().unwrap().display().to_string();
    let rest = ["--exact", "replica::serve", "--nocapture"];
    std::iter::once(this).chain(rest.map(str::to_owned)).collect()
}

/// Passes at once, unless the environment configures a server.
#[test]
fn serve() {
    let Some(config) = ReplicaConfig::from_environment() else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let serving = async { tokio::time::timeout(LIFETIME, run(Arc::new(config))).await };
    // Reaching the end of the lifetime is not a failure.
    let _ = runtime.block_on(serving);
}

/// Serves until SIGTERM, then finishes accepted requests.
async fn run(config: Arc<ReplicaConfig>) {
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, config.port)).await;
    let listener = listener.unwrap();
    config.report_serving();
    let (stop, connections) = (CancellationToken::new(), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = terminate.recv() => break,
        };
        let (stream, _) = accepted.unwrap();
        connections.spawn(serve_connection(stream, Arc::clone(&config), stop.clone()));
    }
    stop.cancel();
    connections.close();
    connections.wait().await;
}

async fn serve_connection(mut stream: TcpStream, config: Arc<ReplicaConfig>, stop: CancellationToken) {
    if config.fault() == Some(Fault::Garbage) && !is_readiness_probe(&stream).await {
        let mut begin = vec![0; FIRST_BYTES];
        // The client may close the connection.
        let _ = stream.read(&mut begin).await;
        let _ = stream.write_all(b"\x00\x01garbage\r\n\r\n").await;
        return;
    }
    stream.set_nodelay(true).unwrap();
    let builder = auto::Builder::new(TokioExecutor::new());
    let service = service_fn(move |request| answer(Arc::clone(&config), request));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // An error of the connection is ignored, because the client sees it too.
    let _ = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
}

/// Returns true if the request is a readiness probe. A faulty replica must stay ready, or it would get no requests.
async fn is_readiness_probe(stream: &TcpStream) -> bool {
    let mut begin = [0; READINESS_PROBE.len()];
    // A connection that is closed at once sends no probe.
    let peeked = stream.peek(&mut begin).await.unwrap_or(0);
    begin[..peeked] == *READINESS_PROBE
}

async fn answer(
    config: Arc<ReplicaConfig>,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, Box<dyn std::error::Error + Send + Sync>> {
    if request.uri().path() == "/v2/health/ready" {
        return Ok(responses::empty());
    }
    let fault = config.fault();
    if fault == Some(Fault::Garbage) {
        return Err("no HTTP any more".into());
    }
    let path = request.uri().path();
    let answer = if path.ends_with("/ModelStreamInfer") {
        responses::echo_frames(request.into_body())
    } else if path.ends_with("/generate_stream") {
        responses::events(async move { config.wait_for_event_release().await })
    } else {
        config.work(request).await
    };
    Ok(match fault {
        Some(Fault::BreakOff) => responses::broken_off(answer),
        Some(Fault::Hang | Fault::Garbage) | None => answer,
    })
}

/// Converts an impossible error into the error type of bodies that can fail.
pub(crate) fn infallible(never: Infallible) -> std::io::Error {
    match never {}
}
