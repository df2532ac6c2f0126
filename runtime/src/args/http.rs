//! Flags of the HTTP front-end and the metrics port.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::{restrict, values};
use crate::incoming::restriction::Restriction;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "HTTP and metrics")]
pub(super) struct HttpArgs {
    #[arg(long, help = "Serve HTTP", num_args = 0..=1, default_value = "true", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) allow_http: bool,
    /// Address to serve HTTP on
    #[arg(long, default_value = "0.0.0.0", value_name = "IP", value_parser = values::address)]
    pub(super) http_address: IpAddr,
    /// Port to serve HTTP on; 0 takes a free port
    #[arg(long, default_value = "8000", value_name = "PORT")]
    pub(super) http_port: u16,
    /// Share the HTTP port with other processes (SO_REUSEPORT)
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) reuse_http_port: bool,
    /// Threads that serve HTTP and gRPC; default: one per processor
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroUsize>)]
    pub(super) http_thread_count: Option<NonZeroUsize>,
    /// Largest JSON part of a request, decompressed body or gRPC message, and raw body, in bytes
    #[arg(long, default_value = "67108864", value_name = "BYTES", value_parser = values::count::<NonZeroUsize>)]
    pub(super) http_max_input_size: NonZeroUsize,
    /// Largest request body of any kind, in bytes
    #[arg(long, default_value = "1073741824", value_name = "BYTES", value_parser = values::count::<NonZeroUsize>)]
    pub(super) http_max_body_size: NonZeroUsize,
    /// Time in which a client must send the head of a request, including the idle time before it; a gRPC connection
    /// without calls is closed after the same time
    #[arg(long, default_value = "75", value_name = "SECONDS", value_parser = values::seconds)]
    pub(super) http_header_timeout_secs: Duration,
    /// Longest pause of a client that sends a request body or reads a response, over HTTP and gRPC. After this time
    /// both must average at least 1 KiB/s
    #[arg(long, default_value = "30", value_name = "SECONDS", value_parser = values::seconds)]
    pub(super) http_body_timeout_secs: Duration,
    /// Pattern of request header names; matching headers become request parameters
    #[arg(long, value_name = "REGEX", value_parser = values::pattern)]
    pub(super) http_header_forward_pattern: Option<regex::Regex>,
    /// Restrict groups of the API to callers that send a header, as GROUP,…:HEADER=VALUE. The groups are health,
    /// metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging and metrics.
    /// Repeatable
    #[arg(long, value_name = "RULE", value_parser = restrict::http)]
    pub(super) http_restricted_api: Vec<Restriction>,
    #[arg(long, help = "Serve metrics", num_args = 0..=1, default_value = "true", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) allow_metrics: bool,
    /// Address to serve metrics on; default: the value of --http-address
    #[arg(long, value_name = "IP", value_parser = values::address)]
    pub(super) metrics_address: Option<IpAddr>,
    /// Port to serve metrics on; 0 takes a free port
    #[arg(long, default_value = "8002", value_name = "PORT")]
    pub(super) metrics_port: u16,
    /// File with one bearer token in each line. Requests from other machines to --metrics-port need one of them, except
    /// for /health. The server reads the file again when it changes. Default: no token is needed
    #[arg(long, value_name = "FILE")]
    pub(super) metrics_token_file: Option<PathBuf>,
    /// Print nv_gpu_* if there is a GPU
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) allow_gpu_metrics: bool,
    #[arg(long, help = "Print nv_cpu_*", num_args = 0..=1, default_value = "true", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) allow_cpu_metrics: bool,
    /// Latency metrics to print: counter_latencies=BOOL or histogram_latencies=BOOL. Repeatable
    #[arg(long, value_name = "SETTING", value_parser = values::pair)]
    pub(super) metrics_config: Vec<(String, String)>,
}
