//! A port for requests: HTTP/1.1, HTTP/2 and gRPC on one listener, plain or TLS. The crate `weir-serve` accepts and
//! drives the connections; this module routes their requests into the gateway.

mod exchange;
mod request_checks;
mod tls_config;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;
use weir_serve::http2_limits::Http2Limits;
use weir_serve::{ConnectionLimits, Http1Use, HttpOptions, HttpPort, Stream, TrackedBody, tls};

use crate::body::FlushFirst;
use crate::certificates::ClientChain;
use crate::clock::seconds_since_1970;
use crate::peers::PeerChain;
use crate::pipeline::proxy::Proxy;
use crate::port::{Encryption, Port, PortHost};
use exchange::Peer;
use tls_config::TlsConfig;

/// Longest head of a request over HTTP/1.1, in bytes. The same as the runtime's.
const MAX_HEAD: usize = 64 << 10;

/// Maximum number of bytes read at once. A body of 64 KiB is read together with its head, as one piece; a second read
/// and piece would add a tenth to the cost of such a request. Larger bodies arrive in several pieces.
const READ_AT_ONCE: usize = 128 << 10;

/// First byte of a TLS handshake (RFC 8446, 5.1), with which no request of HTTP/1.1 or HTTP/2 begins.
const TLS_HANDSHAKE: u8 = 22;

/// Longest wait for the first byte of a connection. Other gateways send it at once.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves the port until `stop`, then drains its connections.
pub(crate) async fn serve(proxy: Arc<Proxy>, port: Port, stop: CancellationToken) {
    let http = HttpPort::new(options(proxy.context.options.connections), stop);
    // Boxed, because a task's future contains a copy of the stream for each place through which the stream is moved.
    let host = port.host.map(PortHost);
    let tls = match port.encryption {
        Encryption::Plain => None,
        Encryption::Tls(tls) => Some(Arc::new(TlsConfig::new(tls))),
    };
    let connection = |stream| {
        let service = PortService { proxy: Arc::clone(&proxy), host: host.clone(), chain: None, gateway: None };
        serve_connection(service, Box::new(stream), tls.clone(), http.clone())
    };
    http.accept(port.listener, connection).await;
    proxy.context.leaving.cancel();
    proxy.context.shutdown.cancel();
    http.ended().await;
}

fn options(connections: ConnectionLimits) -> HttpOptions {
    let http1 = Http1Use::Served { max_head: MAX_HEAD, read_at_once: READ_AT_ONCE };
    HttpOptions { connections, http1, http2: Http2Limits::INFERENCE }
}

/// Service of the requests of one port.
struct PortService {
    proxy: Arc<Proxy>,
    host: Option<PortHost>,
    /// Certificates of the connection's client; `None` if it presented none.
    chain: Option<ClientChain>,
    /// Certificates of the gateway that opened the connection; `None` for other connections.
    gateway: Option<PeerChain>,
}

async fn serve_connection(port: PortService, stream: Box<Stream>, tls: Option<Arc<TlsConfig>>, http: HttpPort) {
    let traffic = stream.traffic();
    let peer = Peer::of(&stream);
    let Some(tls) = tls else {
        if let Some(peers) = port.proxy.context.options.peers.clone()
            && port.host.is_none()
            && Box::pin(begins_with_tls(&stream, &http)).await
            && let Some(config) = peers.server()
        {
            return Box::pin(serve_gateway(port, stream, config, http)).await;
        }
        return http.serve(stream, service(port, peer), &traffic).await;
    };
    let options = &port.proxy.context.options;
    let (config, timeout) = (tls.current(options.access.as_deref()), options.handshake_timeout);
    // Boxed, so that the future of a plain connection reserves no space for TLS.
    if let Some(stream) = Box::pin(tls::handshake(*stream, config, timeout, http.stop())).await {
        let chain = ClientChain::new(stream.get_ref().1.peer_certificates());
        let service = service(PortService { chain, ..port }, peer);
        http.serve(Box::new(stream), service, &traffic).await;
    }
}

/// Returns true if the client begins a TLS handshake, as other gateways do on the port for requests. Waits for the
/// first byte, no longer than for a handshake.
async fn begins_with_tls(stream: &Stream, http: &HttpPort) -> bool {
    let mut first = [0];
    let peeked = tokio::time::timeout(FIRST_BYTE_TIMEOUT, stream.peek(&mut first));
    let peeked = http.stop().run_until_cancelled(peeked).await;
    matches!(peeked, Some(Ok(Ok(1)))) && first == [TLS_HANDSHAKE]
}

/// Serves a connection of another gateway.
async fn serve_gateway(port: PortService, stream: Box<Stream>, config: Arc<ServerConfig>, http: HttpPort) {
    let traffic = stream.traffic();
    let peer = Peer::of(&stream);
    let timeout = port.proxy.context.options.handshake_timeout;
    if let Some(stream) = tls::handshake(*stream, config, timeout, http.stop()).await {
        let peers = port.proxy.context.options.peers.as_deref();
        let presented = stream.get_ref().1.peer_certificates();
        let gateway = peers.and_then(|peers| peers.chain(presented, seconds_since_1970()));
        let service = service(PortService { gateway, ..port }, peer);
        http.serve(Box::new(stream), service, &traffic).await;
    }
}

/// Returns the hyper service that answers one connection's requests.
fn service(
    port: PortService,
    peer: Peer,
) -> impl Service<
    Request<Incoming>,
    Response = Response<TrackedBody<FlushFirst, exchange::RequestLimits>>,
    Error = Infallible,
    Future: Future + Send + Unpin + 'static,
> {
    service_fn(move |mut request: Request<Incoming>| {
        let (proxy, peer, tracked) = (Arc::clone(&port.proxy), peer.clone(), peer.traffic.begin());
        if let Some(host) = &port.host {
            request.extensions_mut().insert(host.clone());
        }
        if let Some(chain) = &port.chain {
            request.extensions_mut().insert(chain.clone());
        }
        if let Some(gateway) = &port.gateway {
            request.extensions_mut().insert(gateway.clone());
        }
        // Boxed, because hyper moves the future several times, and reserves space for it on idle connections too.
        Box::pin(async move {
            let (response, held) = exchange::respond(&proxy, request, &peer).await;
            Ok(tracked.track_with(response.map(FlushFirst::new), held))
        })
    })
}
