//! The port: HTTP/1.1, HTTP/2 and gRPC, told apart by the first bytes; all of it plain, or all behind TLS.
//!
//! ```text
//!   accept ─► shake hands (TLS) ─► first bytes ─┬─► HTTP/2 ───► its end
//!                                               └─► HTTP/1.1 ─► its end
//!                                                    │    ▲
//!                                              quiet └────┘ first bytes
//! ```
//!
//! Most connections are quiet most of the time: between two requests that lie apart an HTTP/1.1 connection
//! holds its socket and little else.

mod connection;
mod http1;
mod http2;
mod idle;
pub(crate) mod request_checks;
mod rewind;
mod sniff;
mod streams;
mod tls;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::service::{HttpService, service_fn};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_ops::socket::{Acceptor, Counted, Stream, Traffic};

use crate::forward::DownstreamBody;
use crate::gateway::Gateway;
use connection::{Terms, serve as serve_connection};
use streams::Streams;
pub(crate) use streams::note;

pub(crate) async fn serve(gateway: Arc<Gateway>, listener: TcpListener, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let options = &gateway.options;
    let (places, idle) = (options.max_connections, options.body_idle);
    let acceptor = Acceptor::new(listener, places, idle, stop.clone());
    let terms = Arc::new(Terms {
        streams: Streams::new(connections.clone(), idle),
        header_timeout: options.header_timeout,
        stop,
    });
    while let Some(stream) = acceptor.accept().await {
        // Boxed: a task has room for each move of it.
        let stream = Box::new(stream);
        connections.spawn(receive(Arc::clone(&gateway), stream, Arc::clone(&terms)));
    }
    drop(acceptor);
    gateway.ending.cancel();
    connections.close();
    connections.wait().await;
}

async fn receive(gateway: Arc<Gateway>, stream: Box<Stream>, terms: Arc<Terms>) {
    let (traffic, from) = (stream.traffic(), stream.peer());
    let service = service(Arc::clone(&gateway), Arc::clone(&traffic), from);
    let Some(config) = &gateway.options.tls else {
        return serve_connection(stream, service, &traffic, &terms).await;
    };
    let timeout = gateway.options.handshake_timeout;
    // Apart, so that plain connections do not carry what encryption needs.
    let shaken = Box::pin(tls::shake_hands(*stream, config, timeout, &terms.stop)).await;
    if let Some(stream) = shaken {
        serve_connection(Box::new(stream), service, &traffic, &terms).await;
    }
}

/// What answers a connection's requests.
fn service(
    gateway: Arc<Gateway>,
    traffic: Arc<Traffic>,
    from: Option<IpAddr>,
) -> impl HttpService<
    Incoming,
    ResBody = Counted<DownstreamBody>,
    Error = Infallible,
    Future: Future + Send + Unpin + 'static,
> {
    service_fn(move |request: Request<Incoming>| {
        let (gateway, exchange) = (Arc::clone(&gateway), traffic.begin());
        // Boxed: the library moves it several times, and keeps its room on an idle connection.
        Box::pin(async move { Ok(exchange.carry(gateway.answer(request, from).await)) })
    })
}
