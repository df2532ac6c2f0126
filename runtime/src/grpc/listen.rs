//! Accepts and serves connections of the gRPC port.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use weir_protocol::grpc::proto::FILE_DESCRIPTOR_SET;
use weir_protocol::grpc::proto::grpc_inference_service_server::GrpcInferenceServiceServer;
use weir_serve::http2_limits::{CONNECTION_WINDOW, MAX_FRAME, MAX_REPLICA_HEAD, MAX_STREAMS, STREAM_WINDOW};
use weir_serve::{Acceptor, BufferedSocket, ConnectionLimits, Flushed, Lifetime, Stream, StreamExecutor};

use super::Grpc;
use super::calls::Calls;
use super::health::Readiness;
use super::http1;
use super::middleware::Middleware;
use super::whole_messages::MessageLimits;
use crate::metrics::Requests;

/// Limits and timeouts of the gRPC port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrpcListenOptions {
    /// Idle time after which the server pings a connection; `None` means never.
    pub keepalive_time: Option<Duration>,
    /// Longest wait for the answer to a ping.
    pub keepalive_timeout: Duration,
    /// Age at which the server asks the client to close a connection; `None` means never.
    pub max_connection_age: Option<Duration>,
    /// Time that calls then have to finish; `None` means no limit.
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
    let calls = Arc::new(calls(grpc, requests, &options));
    let acceptor = Acceptor::new(listener, options.connections, stop.clone());
    let port = Port { calls, options, streams: StreamExecutor::new(TaskTracker::new(), &options.connections), stop };
    acceptor.serve(|stream| serve_connection(stream, port.clone())).await;
}

/// State shared by the connections of the port.
#[derive(Clone)]
struct Port {
    calls: Arc<Calls>,
    options: GrpcListenOptions,
    streams: StreamExecutor,
    stop: CancellationToken,
}

async fn serve_connection(stream: Stream, port: Port) {
    let Port { calls, options, streams, stop } = port;
    if http1::begins(&stream, &stop).await {
        return http1::refuse(stream).await;
    }
    let traffic = stream.traffic();
    let seen = Arc::clone(&traffic);
    let service = service_fn(move |request| {
        let (calls, exchange) = (Arc::clone(&calls), seen.begin());
        let answer = calls.answer(request);
        answer.map(|response| Ok::<_, Infallible>(exchange.track(response)))
    });
    let mut builder = http2::Builder::new(traffic.executor(&streams));
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .max_header_list_size(MAX_REPLICA_HEAD)
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(options.keepalive_time)
        .keep_alive_timeout(options.keepalive_timeout);
    let socket = BufferedSocket::http2(stream);
    let flusher = socket.flusher();
    let connection = builder.serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(Flushed::new(connection, flusher));
    let lifetime = Lifetime { idle: options.connections.idle, stop: &stop, late_requests: Duration::ZERO };
    let ended = tokio::select! {
        ended = weir_serve::serve(connection.as_mut(), |connection| connection.connection().graceful_shutdown(), &traffic, lifetime) => Some(ended),
        () = sleep_or_forever(options.max_connection_age) => {
            connection.as_mut().connection().graceful_shutdown();
            // The graceful shutdown waits for the answer to a ping, which a client without calls may never send.
            tokio::select! {
                ended = weir_serve::close(connection, &traffic) => Some(ended),
                () = sleep_or_forever(options.max_connection_age_grace) => None,
            }
        }
    };
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Sleeps for this time; forever for `None`.
async fn sleep_or_forever(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
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
    if let Ok(service) = reflection().build_v1() {
        routes.add_service(service);
    }
    if let Ok(service) = reflection().build_v1alpha() {
        routes.add_service(service);
    }
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

/// Returns the reflection service, with which `grpcurl` and similar clients list the port's methods. The descriptors
/// are compiled in, so building it fails only if they are broken; then the server runs without reflection.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

#[cfg(test)]
mod tests;
