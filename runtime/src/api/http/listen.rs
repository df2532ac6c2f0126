//! The HTTP port.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weir_serve::http2_limits::{Http2Limits, MAX_REPLICA_HEAD};
use weir_serve::{ConnectionLimits, Http1Use, HttpOptions as PortOptions, HttpPort};

use super::Http;
use crate::tls::serve_connection;

/// Longest head of a request over HTTP/1.1, in bytes. The same as the gateway's.
const MAX_HEAD: usize = 64 << 10;

/// Serves until `stop` is cancelled, and returns when every accepted request is answered. Requests that clients sent
/// before they could see the port close are still accepted. Idle connections are closed, and so are connections that do
/// not send a whole request within seconds.
pub(crate) async fn serve(listener: TcpListener, http: Arc<Http>, stop: CancellationToken) {
    let port = HttpPort::new(options(http.options.connections), stop);
    let serve = |stream| {
        let (http, tls) = (Arc::clone(&http), http.options.tls.clone());
        serve_connection(stream, tls, port.clone(), move |request| Arc::clone(&http).answer(request))
    };
    port.accept(listener, serve).await;
    port.ended().await;
}

fn options(connections: ConnectionLimits) -> PortOptions {
    // A read returns at most as many bytes as the longest head has: bodies are joined elsewhere, and this many bytes
    // fit into the processor's cache.
    let http1 = Http1Use::Served { max_head: MAX_HEAD, read_at_once: MAX_HEAD };
    PortOptions { connections, http1, http2: Http2Limits { max_head: MAX_REPLICA_HEAD, ..Http2Limits::INFERENCE } }
}
