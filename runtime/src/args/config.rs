//! The configuration of the process, built from checked flags.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_ops::admin::TokenFile;
use weir_ops::telemetry;
use weir_serve::ConnectionLimits;

use super::device::DeviceChoice;
use crate::backend::{ModelCode, UnguardedOperators, WarmUpFailures};
use crate::engine::BatchLimit;
use crate::incoming::restriction::{ControlRoutes, Restriction};
use crate::metrics;
use crate::repository::{AutoComplete, ControlMode, ReadinessPolicy};
use crate::settings::trace::TraceSettings;
use crate::tls::{CertificateIssuer, RequestTls, TlsFiles};

/// The configuration of the process.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The server's name in its metadata.
    pub(crate) id: String,
    /// Files or directories to serve, or URIs of buckets and hubs; at least one.
    pub(crate) repositories: Vec<PathBuf>,
    /// Directory for copies of remote repositories; `None` means a temporary one.
    pub(crate) repository_cache: Option<PathBuf>,
    /// Name to serve the only model under; `None` keeps its own name.
    pub(crate) model_name: Option<String>,
    pub(crate) control: ControlMode,
    /// Permission for the calls that control the server.
    pub(crate) control_routes: ControlRoutes,
    /// Base name of a file in `configs` that models with this file use instead of `config.pbtxt`; `None` means
    /// `config.pbtxt`.
    pub(crate) config_name: Option<String>,
    /// Models loaded at the same time.
    pub(crate) load_threads: NonZeroUsize,
    /// Retries of a failed load.
    pub(crate) load_retries: u32,
    pub(crate) auto_complete: AutoComplete,
    /// File with an example request for the only model (`--example`); `None` if the flag is not given.
    pub(crate) example: Option<PathBuf>,
    pub(crate) warm_up_failures: WarmUpFailures,
    pub(crate) unguarded_operators: UnguardedOperators,
    pub(crate) model_code: ModelCode,
    pub(crate) device: DeviceChoice,
    pub(crate) readiness: ReadinessPolicy,
    pub(crate) on_load_error: OnLoadError,
    /// The HTTP front-end, unless switched off.
    pub(crate) http: Option<HttpConfig>,
    /// The gRPC front-end, unless switched off.
    pub(crate) grpc: Option<GrpcConfig>,
    /// TLS of both front-ends; `None` serves plainly.
    pub(crate) tls: Option<TlsConfig>,
    /// The metrics port, unless switched off.
    pub(crate) metrics: Option<MetricsConfig>,
    /// Threads that serve HTTP and gRPC; `None` means one per processor.
    pub(crate) threads: Option<NonZeroUsize>,
    /// Longest queue of a model version, in requests.
    pub(crate) max_queue: NonZeroUsize,
    /// Limit on the run time of a batch.
    pub(crate) batch_limit: BatchLimit,
    /// Limits on the connections of each front-end.
    pub(crate) connections: ConnectionLimits,
    /// Memory for request bodies, in bytes.
    pub(crate) max_inflight: usize,
    /// Time from the first signal until the process exits.
    pub(crate) exit_timeout: Duration,
    /// Time from the first signal until new requests are refused.
    pub(crate) drain_delay: Duration,
    /// Largest number of shared-memory regions; `None` means that clients may register none.
    pub(crate) shared_memory: Option<NonZeroUsize>,
    pub(crate) logs: telemetry::Settings,
    pub(crate) trace: TraceSettings,
    /// Sentences to log at start, about flags accepted without effect.
    pub(crate) notes: Vec<String>,
}

/// Reaction to a failed load at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLoadError {
    Exit,
    /// Serves the other models. The repository index shows the reason, and the log that of a model that could not be
    /// fetched.
    Serve,
}

/// Options of the HTTP front-end.
#[derive(Clone, Debug)]
pub(crate) struct HttpConfig {
    pub(crate) address: SocketAddr,
    /// Share the port with other processes (`SO_REUSEPORT`).
    pub(crate) reuse_port: bool,
    /// Limit in bytes on a JSON header, a raw body and a decompressed body.
    pub(crate) max_input: usize,
    /// Limit in bytes on any body.
    pub(crate) max_body: usize,
    /// Pattern that matches any part of a header's name; matching headers become parameters. `None` means no header
    /// does.
    pub(crate) forward: Option<regex::Regex>,
    pub(crate) restricted: Vec<Restriction>,
}

/// Options of the gRPC front-end.
#[derive(Clone, Debug)]
pub(crate) struct GrpcConfig {
    pub(crate) address: SocketAddr,
    /// Share the port with other processes (`SO_REUSEPORT`).
    pub(crate) reuse_port: bool,
    /// Pattern that matches any part of a metadata key; matching entries become parameters. `None` means no entry does.
    pub(crate) forward: Option<regex::Regex>,
    pub(crate) restricted: Vec<Restriction>,
    /// Limit in bytes on a decompressed message.
    pub(crate) max_decompressed: usize,
    /// Compress inference responses with gzip for clients that accept it.
    pub(crate) gzip_responses: bool,
    /// Time without activity after which the server sends a ping.
    pub(crate) keepalive_time: Duration,
    /// Time in which the client must answer a ping.
    pub(crate) keepalive_timeout: Duration,
    /// Age at which the server asks a client to reconnect; `None` means never.
    pub(crate) max_age: Option<Duration>,
    /// Time that calls have to finish once the connection has reached `max_age`; `None` means no limit.
    pub(crate) max_age_grace: Option<Duration>,
}

/// TLS of the HTTP and gRPC front-ends.
#[derive(Clone, Debug)]
pub(crate) struct TlsConfig {
    pub(crate) requests: Arc<RequestTls>,
    pub(crate) source: CertificateSource,
}

/// Source of the certificate for requests.
#[derive(Clone, Debug)]
pub(crate) enum CertificateSource {
    Files(TlsFiles),
    /// The controllers of the cluster.
    Issuer(CertificateIssuer),
}

impl TlsConfig {
    /// Follows the changes of the certificate. Never returns.
    pub(crate) async fn follow(&self) {
        match &self.source {
            CertificateSource::Files(files) => files.follow(&self.requests).await,
            CertificateSource::Issuer(issuer) => issuer.follow(&self.requests).await,
        }
    }
}

/// Options of the metrics port.
#[derive(Clone, Debug)]
pub(crate) struct MetricsConfig {
    pub(crate) address: SocketAddr,
    /// Optional series to print.
    pub(crate) options: metrics::Options,
    /// Tokens of which requests from other machines need one; `None` if they need none.
    pub(crate) token: Option<Arc<TokenFile>>,
}
