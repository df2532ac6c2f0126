//! Flags of the gRPC front-end.

use std::net::IpAddr;
use std::time::Duration;

use super::{restrict, values};
use crate::incoming::restriction::Restriction;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "gRPC")]
pub(super) struct GrpcArgs {
    #[arg(long, help = "Serve gRPC", num_args = 0..=1, default_value = "true", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) allow_grpc: bool,
    /// Address to serve gRPC on
    #[arg(long, default_value = "0.0.0.0", value_name = "IP", value_parser = values::address)]
    pub(super) grpc_address: IpAddr,
    /// Port to serve gRPC on; 0 takes a free port
    #[arg(long, default_value = "8001", value_name = "PORT")]
    pub(super) grpc_port: u16,
    /// Share the gRPC port with other processes (SO_REUSEPORT)
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) reuse_grpc_port: bool,
    /// Pattern of request metadata keys; matching entries become request parameters
    #[arg(long, value_name = "REGEX", value_parser = values::pattern)]
    pub(super) grpc_header_forward_pattern: Option<regex::Regex>,
    /// Restrict groups of the API to callers that send the metadata triton-grpc-protocol-KEY, as GROUP,…:KEY=VALUE. The
    /// groups are health, metadata, inference, shared-memory, model-config, model-repository, statistics, trace,
    /// logging and reflection. Repeatable
    #[arg(long, value_name = "RULE", value_parser = restrict::grpc)]
    pub(super) grpc_restricted_protocol: Vec<Restriction>,
    /// Compression of inference responses, for clients that accept it
    #[arg(long, value_enum, default_value = "none", value_name = "LEVEL")]
    pub(super) grpc_infer_response_compression_level: CompressionLevel,
    /// Time without activity after which the server sends a keepalive ping
    #[arg(long, default_value = "7200000", value_name = "MS", value_parser = values::milliseconds)]
    pub(super) grpc_keepalive_time: Duration,
    /// Time in which a client must answer a keepalive ping
    #[arg(long, default_value = "20000", value_name = "MS", value_parser = values::milliseconds)]
    pub(super) grpc_keepalive_timeout: Duration,
    /// Age at which the server asks a client to reconnect (GOAWAY); default: never
    #[arg(long, value_name = "MS", value_parser = values::milliseconds)]
    pub(super) grpc_max_connection_age: Option<Duration>,
    /// Time that calls on such a connection have to finish; default: unlimited
    #[arg(long, value_name = "MS", value_parser = values::milliseconds)]
    pub(super) grpc_max_connection_age_grace: Option<Duration>,
}

/// Triton's compression levels. Every level but `none` means the same gzip level here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum CompressionLevel {
    None,
    Low,
    Medium,
    High,
}

impl CompressionLevel {
    pub(super) fn uses_gzip(self) -> bool {
        match self {
            Self::None => false,
            Self::Low | Self::Medium | Self::High => true,
        }
    }
}
