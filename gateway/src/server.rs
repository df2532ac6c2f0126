//! Serves the request ports: HTTP/1.1, HTTP/2 and gRPC on one listener, distinguished by a connection's first bytes; plain
//! or TLS.
//!
//! ```text
//!   accept ─► TLS handshake ─► sniff ─┬─► HTTP/2 ───► close
//!                                     └─► HTTP/1.1 ─► close
//!                                          │    ▲
//!                                     idle └────┘ next request's first bytes
//! ```
//!
//! Most connections are idle most of the time, so an idle HTTP/1.1 connection keeps only its socket and a small state.

mod connection;
mod exchange;
mod head_size;
mod http1;
mod http2;
mod idle;
mod request_checks;
mod rewind;
mod settings;
mod sniff;
mod tls;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::service::{HttpService, service_fn};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_serve::{Acceptor, Counted, Stream, StreamExecutor, Traffic};

use crate::body::FlushFirst;
use crate::port::{Encryption, Port};
use crate::proxy::Proxy;
use settings::ServerSettings;

/// Serves the port until `stop`, then drains its connections.
pub(crate) async fn serve(proxy: Arc<Proxy>, port: Port, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let limits = proxy.context.options.connections;
    let acceptor = Acceptor::new(port.listener, limits, stop.clone());
    let settings = Arc::new(ServerSettings {
        streams: StreamExecutor::new(connections.clone(), &limits),
        header_timeout: limits.idle,
        encryption: port.encryption,
        stop,
        refusals: Mutex::default(),
    });
    // Boxed because the size of a task includes every copy that a move leaves.
    let serve = |stream| serve_connection(Arc::clone(&proxy), Box::new(stream), Arc::clone(&settings));
    acceptor.spawn_all(&connections, serve).await;
    proxy.context.leaving.cancel();
    proxy.context.shutdown.cancel();
    connections.close();
    connections.wait().await;
}

async fn serve_connection(proxy: Arc<Proxy>, stream: Box<Stream>, settings: Arc<ServerSettings>) {
    let (traffic, peer) = (stream.traffic(), stream.peer());
    let service = service(Arc::clone(&proxy), Arc::clone(&traffic), peer);
    let config = match &settings.encryption {
        Encryption::Plain => return connection::serve(stream, service, &traffic, &settings).await,
        Encryption::Tls(config) => config,
    };
    let timeout = proxy.context.options.handshake_timeout;
    // Boxed, so that the future of a plain connection reserves no space for TLS.
    let accepted = Box::pin(tls::handshake(*stream, config, timeout, &settings.stop)).await;
    if let Some(stream) = accepted {
        connection::serve(Box::new(stream), service, &traffic, &settings).await;
    }
}

/// The hyper service that answers one connection's requests.
fn service(
    proxy: Arc<Proxy>,
    traffic: Arc<Traffic>,
    peer: Option<IpAddr>,
) -> impl HttpService<Incoming, ResBody = Counted<FlushFirst>, Error = Infallible, Future: Future + Send + Unpin + 'static>
{
    service_fn(move |request: Request<Incoming>| {
        let (proxy, tracked) = (Arc::clone(&proxy), traffic.begin());
        // Boxed because hyper moves the future several times and reserves its space on an idle connection too.
        Box::pin(async move {
            let response = exchange::respond(&proxy, request, peer).await;
            Ok(tracked.track(response.map(FlushFirst::new)))
        })
    })
}
