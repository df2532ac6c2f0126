//! A model server in place of a container: this test binary, told by a variable to be one. HTTP/1.1 and
//! gRPC on one port; it answers every inference with its label, after its service time, and ends in order.

mod answers;
mod traits;

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

use crate::field::Fault;
use answers::Body;
use traits::Traits;
pub(crate) use traits::{FIELD, GATE, LABEL, SERVICE_MS};

/// No test lives so long; a server that was forgotten ends by itself.
const LIFETIME: Duration = Duration::from_secs(300);

/// A request begins with fewer bytes than that.
const FIRST_BYTES: usize = 1024;

/// How the question begins whether it is ready.
const READY_CALL: &[u8] = b"GET /v2/health/ready";

/// The command that makes this binary a server.
pub(crate) fn command() -> Vec<String> {
    let this = std::env::current_exe().unwrap().display().to_string();
    let rest = ["--exact", "replica::serve", "--nocapture"];
    std::iter::once(this)
        .chain(rest.map(str::to_owned))
        .collect()
}

/// Passes at once, unless it is told to serve.
#[test]
fn serve() {
    let Some(traits) = Traits::of_environment() else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let serving = async { tokio::time::timeout(LIFETIME, run(Arc::new(traits))).await };
    // Whoever forgot it does not want to hear of it.
    let _ = runtime.block_on(serving);
}

/// Serves until SIGTERM, then answers what it has.
async fn run(traits: Arc<Traits>) {
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, traits.port)).await;
    let listener = listener.unwrap();
    traits.tell_field();
    let (stop, connections) = (CancellationToken::new(), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = terminate.recv() => break,
        };
        let (stream, _) = accepted.unwrap();
        connections.spawn(converse(stream, Arc::clone(&traits), stop.clone()));
    }
    stop.cancel();
    connections.close();
    connections.wait().await;
}

async fn converse(mut stream: TcpStream, traits: Arc<Traits>, stop: CancellationToken) {
    if traits.fault() == Some(Fault::Garbage) && !asks_whether_ready(&stream).await {
        let mut begin = vec![0; FIRST_BYTES];
        // Who is talked to like that may leave.
        let _ = stream.read(&mut begin).await;
        let _ = stream.write_all(b"\x00\x01garbage\r\n\r\n").await;
        return;
    }
    stream.set_nodelay(true).unwrap();
    let builder = auto::Builder::new(TokioExecutor::new());
    let service = service_fn(move |request| answer(Arc::clone(&traits), request));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // How connections end is seen by who asked.
    let _ = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
}

/// It lies: what has a fault says that it is ready, or nobody would ask it.
async fn asks_whether_ready(stream: &TcpStream) -> bool {
    let mut begin = [0; READY_CALL.len()];
    // Whoever leaves at once asked nothing.
    let peeked = stream.peek(&mut begin).await.unwrap_or(0);
    begin[..peeked] == *READY_CALL
}

async fn answer(
    traits: Arc<Traits>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Box<dyn std::error::Error + Send + Sync>> {
    if request.uri().path() == "/v2/health/ready" {
        return Ok(answers::empty());
    }
    let fault = traits.fault();
    if fault == Some(Fault::Garbage) {
        return Err("no HTTP any more".into());
    }
    let path = request.uri().path();
    let answer = if path.ends_with("/ModelStreamInfer") {
        answers::mirror(request.into_body())
    } else if path.ends_with("/generate_stream") {
        answers::events(traits)
    } else {
        traits.work(request).await
    };
    Ok(match fault {
        Some(Fault::BreakOff) => answers::cut(answer),
        Some(Fault::Hang | Fault::Garbage) | None => answer,
    })
}

/// Frames cannot fail here but where they are meant to.
pub(crate) fn infallible(never: Infallible) -> std::io::Error {
    match never {}
}
