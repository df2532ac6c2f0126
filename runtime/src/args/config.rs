//! The configuration of the process: the flags, checked.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use weir_ops::socket::ConnectionLimits;
use weir_ops::telemetry;

use super::device::DeviceChoice;
use crate::backend::WarmUpFailures;
use crate::engine::BatchLimit;
use crate::metrics;
use crate::repository::{AutoComplete, ControlMode, ReadinessPolicy};
use crate::restriction::{ControlRoutes, Restriction};
use crate::settings::trace::TraceSettings;

/// The configuration of the process.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The server's name in its metadata.
    pub(crate) id: String,
    /// Files or directories to serve; at least one.
    pub(crate) repositories: Vec<PathBuf>,
    /// Name of the single model served.
    pub(crate) model_name: Option<String>,
    pub(crate) control: ControlMode,
    /// Use of the calls that control the server.
    pub(crate) control_routes: ControlRoutes,
    /// Name of the configuration to use in place of `config.pbtxt`.
    pub(crate) config_name: Option<String>,
    /// Models loaded at the same time.
    pub(crate) load_threads: NonZeroUsize,
    /// Further attempts after a failed load.
    pub(crate) load_retries: u32,
    pub(crate) auto_complete: AutoComplete,
    /// A request that the only model answers.
    pub(crate) example: Option<PathBuf>,
    pub(crate) warm_up_failures: WarmUpFailures,
    pub(crate) device: DeviceChoice,
    pub(crate) readiness: ReadinessPolicy,
    pub(crate) on_load_error: OnLoadError,
    /// The HTTP front-end, unless switched off.
    pub(crate) http: Option<HttpConfig>,
    /// The gRPC front-end, unless switched off.
    pub(crate) grpc: Option<GrpcConfig>,
    /// The metrics port, unless switched off.
    pub(crate) metrics: Option<MetricsConfig>,
    /// Threads that serve HTTP and gRPC; `None` is one per processor.
    pub(crate) threads: Option<NonZeroUsize>,
    /// Requests that may wait per model version.
    pub(crate) max_queue: NonZeroUsize,
    /// Limit on the time of a batch.
    pub(crate) batch_limit: BatchLimit,
    /// Limits on the connections of each front-end.
    pub(crate) connections: ConnectionLimits,
    /// Bytes that request bodies may hold together.
    pub(crate) max_inflight: usize,
    /// From the first signal until the process exits.
    pub(crate) exit_timeout: Duration,
    /// From the first signal until new requests are refused.
    pub(crate) drain_delay: Duration,
    /// Limit on clients' shared-memory regions; `None` disables them.
    pub(crate) shared_memory: Option<NonZeroUsize>,
    pub(crate) logs: telemetry::Settings,
    pub(crate) trace: TraceSettings,
    /// Sentences to log once: flags accepted without effect.
    pub(crate) notes: Vec<String>,
}

/// Reaction to a failed load at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLoadError {
    Exit,
    /// Serves the other models; the index shows the reason.
    Serve,
}

/// Options of the HTTP front-end.
#[derive(Clone, Debug)]
pub(crate) struct HttpConfig {
    pub(crate) address: SocketAddr,
    /// Shares the port with other processes (`SO_REUSEPORT`).
    pub(crate) reuse_port: bool,
    /// Bytes of a JSON header, of a raw body and of a decompressed body.
    pub(crate) max_input: usize,
    /// Bytes of any body.
    pub(crate) max_body: usize,
    /// Headers that become parameters; matches whole names.
    pub(crate) forward: Option<regex::Regex>,
    pub(crate) restricted: Vec<Restriction>,
}

/// Options of the gRPC front-end.
#[derive(Clone, Debug)]
pub(crate) struct GrpcConfig {
    pub(crate) address: SocketAddr,
    /// Shares the port with other processes (`SO_REUSEPORT`).
    pub(crate) reuse_port: bool,
    /// Metadata that becomes parameters; matches whole keys.
    pub(crate) forward: Option<regex::Regex>,
    pub(crate) restricted: Vec<Restriction>,
    /// Bytes of a decompressed message.
    pub(crate) max_decompressed: usize,
    /// Compress inference responses with gzip for clients that accept it.
    pub(crate) gzip_responses: bool,
    /// Time without activity before a ping.
    pub(crate) keepalive_time: Duration,
    /// Time to answer a ping.
    pub(crate) keepalive_timeout: Duration,
    /// Age at which a connection is asked to end.
    pub(crate) max_age: Option<Duration>,
    /// Time that calls then have to finish.
    pub(crate) max_age_grace: Option<Duration>,
}

/// Options of the metrics port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetricsConfig {
    pub(crate) address: SocketAddr,
    /// Optional series to print.
    pub(crate) options: metrics::Options,
}
