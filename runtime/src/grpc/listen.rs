//! The gRPC port.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::transport::Server as Transport;
use tonic_health::pb::health_server::HealthServer;
use tower::layer::layer_fn;
use weir_protocol::grpc::proto::FILE_DESCRIPTOR_SET;
use weir_protocol::grpc::proto::grpc_inference_service_server::GrpcInferenceServiceServer;

use super::Grpc;
use super::edge::Edge;
use super::health::Readiness;
use crate::metrics::Requests;
use crate::socket::{self, Acceptor};

/// How the gRPC port behaves.
#[derive(Clone, Copy, Debug)]
pub struct GrpcListenOptions {
    /// Pause after which the server pings an idle connection; `None` never.
    pub keepalive_time: Option<Duration>,
    /// How long a ping may stay unanswered.
    pub keepalive_timeout: Duration,
    /// Age at which a connection is asked to end; `None` never.
    pub max_connection_age: Option<Duration>,
    /// Time its calls then have; `None` is no limit.
    pub max_connection_age_grace: Option<Duration>,
    /// Connections served at once; more wait to be accepted.
    pub max_connections: usize,
    /// Largest message in either direction, in bytes.
    pub max_message: usize,
    /// Whether responses are packed.
    pub compression: Compression,
}

/// Whether responses are packed for clients that can unpack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Never.
    Off,
    /// With gzip.
    Gzip,
}

/// A stream's window: a common image tensor (3 × 224 × 224 FP32 is 588 KiB) arrives in one go.
const STREAM_WINDOW: u32 = 1 << 20;

/// A connection's window: several such streams.
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Streams of one connection; a client wanting more opens another.
const MAX_STREAMS: u32 = 1024;

/// Serves until `stop`, then finishes the calls in flight.
///
/// # Errors
/// tonic's, when the port fails.
pub async fn serve(
    listener: TcpListener,
    grpc: Grpc,
    requests: Requests,
    listen: GrpcListenOptions,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let (server, edge_options) = (Arc::clone(&grpc.server), Arc::clone(&grpc.options));
    let mut service = GrpcInferenceServiceServer::new(grpc)
        .max_decoding_message_size(listen.max_message)
        .max_encoding_message_size(listen.max_message)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Deflate);
    if listen.compression == Compression::Gzip {
        service = service.send_compressed(CompressionEncoding::Gzip);
    }
    let edge = layer_fn(move |inner| Edge::new(inner, Arc::clone(&edge_options), requests.clone()));
    let mut transport = Transport::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .http2_keepalive_interval(listen.keepalive_time)
        .http2_keepalive_timeout(Some(listen.keepalive_timeout));
    if let Some(age) = listen.max_connection_age {
        transport = transport.max_connection_age(age);
    }
    if let Some(grace) = listen.max_connection_age_grace {
        transport = transport.max_connection_age_grace(grace);
    }
    transport
        .layer(edge)
        .add_service(service)
        .add_service(HealthServer::new(Readiness(server)))
        .add_optional_service(reflection().build_v1().ok())
        .add_optional_service(reflection().build_v1alpha().ok())
        .serve_with_incoming_shutdown(
            incoming(Acceptor::new(
                listener,
                listen.max_connections,
                stop.clone(),
            )),
            stop.cancelled_owned(),
        )
        .await
}

/// Lets `grpcurl` and the like ask what there is. Built from descriptors that the build made, so it
/// only fails if those are broken; then the server does without.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Connections as they are accepted, for ever: the transport stops asking for more by itself.
fn incoming(acceptor: Acceptor) -> impl Stream<Item = io::Result<socket::Stream>> {
    stream::unfold(acceptor, |acceptor| async move {
        let stream = acceptor.accept().await;
        Some((Ok(stream), acceptor))
    })
}
