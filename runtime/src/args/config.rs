//! What the flags say, checked: what the server is built of.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use weir_ops::telemetry;

use super::device::DeviceChoice;
use super::grpc::Compression;
use super::restrict::Restriction;
use crate::metrics;
use crate::repository::{AutoComplete, ControlMode, ReadinessPolicy};
use crate::settings::trace::Trace;

/// What the flags say, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server's name in its metadata.
    pub id: String,
    /// What to serve: files or directories. Not empty.
    pub repositories: Vec<PathBuf>,
    /// The name of the single model served.
    pub model_name: Option<String>,
    /// When models are loaded.
    pub control: ControlMode,
    /// The name of the configuration to use in place of `config.pbtxt`.
    pub config_name: Option<String>,
    /// Models loaded at the same time.
    pub load_threads: NonZeroUsize,
    /// How often a failed load is tried again.
    pub load_retries: u32,
    /// Whether configurations are completed from the model.
    pub auto_complete: AutoComplete,
    /// Settings by backend and key; backend `""` is all of them.
    pub backends: BTreeMap<String, BTreeMap<String, String>>,
    /// Where models run.
    pub device: DeviceChoice,
    /// When the server is ready.
    pub readiness: ReadinessPolicy,
    /// What a failed load at start does.
    pub on_load_error: OnLoadError,
    /// The HTTP front-end, unless switched off.
    pub http: Option<HttpConfig>,
    /// The gRPC front-end, unless switched off.
    pub grpc: Option<GrpcConfig>,
    /// The metrics port, unless switched off.
    pub metrics: Option<MetricsConfig>,
    /// Threads that serve HTTP and gRPC; `None` is one per processor.
    pub threads: Option<NonZeroUsize>,
    /// Requests that may wait per model version.
    pub max_queue: NonZeroUsize,
    /// Connections at the same time, per front-end.
    pub max_connections: NonZeroUsize,
    /// Bytes that request bodies may hold together.
    pub max_inflight: usize,
    /// From the first signal until the process ends.
    pub exit_timeout: Duration,
    /// From the first signal until newcomers are refused.
    pub drain_delay: Duration,
    /// Shared-memory regions clients may register; `None` is not at all.
    pub shared_memory: Option<NonZeroUsize>,
    /// Logs at start.
    pub logs: telemetry::Settings,
    /// Traces at start.
    pub trace: Trace,
    /// Sentences to log once: flags accepted without effect.
    pub notes: Vec<String>,
}

/// What a failed load at start does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoadError {
    /// Ends the process.
    Exit,
    /// Leaves the model unavailable, with its reason.
    Stay,
}

/// The HTTP front-end.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether other processes may listen there too.
    pub reuse_port: bool,
    /// Bytes of a JSON header, of a raw body and of a decompressed body.
    pub max_input: usize,
    /// Bytes of any body.
    pub max_body: usize,
    /// Time for a request's head, idle time before it included.
    pub header_timeout: Duration,
    /// Time a body may stand still, a request's or an answer's.
    pub body_timeout: Duration,
    /// Headers that become parameters; matches whole names.
    pub forward: Option<regex::Regex>,
    /// Closed groups of the API.
    pub restricted: Vec<Restriction>,
}

/// The gRPC front-end.
#[derive(Clone, Debug)]
pub struct GrpcConfig {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether other processes may listen there too.
    pub reuse_port: bool,
    /// Metadata that becomes parameters; matches whole keys.
    pub forward: Option<regex::Regex>,
    /// Closed groups of the API.
    pub restricted: Vec<Restriction>,
    /// Time a message may stand still, a request's or an answer's.
    pub message_timeout: Duration,
    /// Compression of inference responses.
    pub compression: Compression,
    /// Time without activity before a ping.
    pub keepalive_time: Duration,
    /// Time to answer it.
    pub keepalive_timeout: Duration,
    /// Age at which a connection is asked to end.
    pub max_age: Option<Duration>,
    /// Time its calls then have.
    pub max_age_grace: Option<Duration>,
}

/// The metrics port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Where it listens.
    pub address: SocketAddr,
    /// Which optional series are printed.
    pub options: metrics::Options,
}
