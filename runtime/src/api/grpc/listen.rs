//! Accepts and serves connections of the gRPC port.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use weir_protocol::grpc::add_reflection;
use weir_protocol::grpc::proto::grpc_inference_service_server::GrpcInferenceServiceServer;
use weir_serve::http2_limits::{ConnectionAge, Http2Limits, MAX_REPLICA_HEAD, Ping};
use weir_serve::{ConnectionLimits, Http1Use, HttpOptions, HttpPort};

use super::Grpc;
use super::calls::Calls;
use super::content_type::SENTENCE;
use super::health::Readiness;
use super::middleware::Middleware;
use super::whole_messages::MessageLimits;
use crate::metrics::Requests;
use crate::tls::serve_connection;

/// Limits and timeouts of the gRPC port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrpcListenOptions {
    /// Idle time after which the server pings a connection; `None` means never.
    pub keepalive_time: Option<Duration>,
    /// Longest wait for the answer to a ping.
    pub keepalive_timeout: Duration,
    /// Age at which the server asks the client to close a connection; `None` means never.
    pub max_connection_age: Option<Duration>,
    /// Time that calls have to finish once the connection has reached `max_connection_age`; `None` means no limit.
    pub max_connection_age_grace: Option<Duration>,
    /// Limits on the port's connections, and on the time that clients may take.
    pub connections: ConnectionLimits,
    /// Largest message in either direction, in bytes.
    pub max_message: usize,
    /// Largest decompressed message, in bytes.
    pub max_decompressed: usize,
    /// Compress responses with gzip for clients that accept it.
    pub gzip_responses: bool,
}

/// Serves until `stop` is cancelled, then finishes the calls in flight.
pub(crate) async fn serve(
    listener: TcpListener,
    grpc: Grpc,
    requests: Requests,
    options: GrpcListenOptions,
    stop: CancellationToken,
) {
    let port = HttpPort::new(port_options(&options), stop);
    let calls = Arc::new(calls(grpc, requests, &options));
    let serve = |stream| {
        let (calls, tls) = (Arc::clone(&calls), calls.grpc.options.tls.clone());
        serve_connection(stream, tls, port.clone(), move |request| Arc::clone(&calls).answer(request))
    };
    port.accept(listener, serve).await;
    port.ended().await;
}

fn port_options(options: &GrpcListenOptions) -> HttpOptions {
    let http2 = Http2Limits {
        max_head: MAX_REPLICA_HEAD,
        ping: options.keepalive_time.map(|every| Ping { every, answered_within: options.keepalive_timeout }),
        age: options.max_connection_age.map(|limit| ConnectionAge { limit, grace: options.max_connection_age_grace }),
        ..Http2Limits::INFERENCE
    };
    HttpOptions { connections: options.connections, http1: Http1Use::Refused(SENTENCE), http2 }
}

fn calls(grpc: Grpc, requests: Requests, options: &GrpcListenOptions) -> Calls {
    let (server, grpc_options) = (Arc::clone(&grpc.server), Arc::clone(&grpc.options));
    let mut service = GrpcInferenceServiceServer::new(grpc.clone())
        .max_decoding_message_size(options.max_message)
        .max_encoding_message_size(options.max_message)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Deflate);
    if options.gzip_responses {
        service = service.send_compressed(CompressionEncoding::Gzip);
    }
    let mut routes = Routes::builder();
    routes.add_service(service).add_service(HealthServer::new(Readiness(server)));
    add_reflection(&mut routes);
    let limits = MessageLimits { size: options.max_message, decompressed: options.max_decompressed };
    let routes = routes.routes().prepare();
    Calls {
        grpc,
        routes: Middleware::new(routes, grpc_options, requests.clone(), limits),
        requests,
        max_message: options.max_message,
        connections: options.connections,
        gzip_responses: options.gzip_responses,
    }
}

#[cfg(test)]
mod tests;
