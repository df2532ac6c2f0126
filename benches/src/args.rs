//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};

use crate::tensor::TensorFile;

/// Sends the same inference request repeatedly and reports throughput and latency as JSON.
///
/// A closed loop (the default) keeps one request in flight on each connection, and measures the server's
/// throughput. An open loop (--rate) sends on a schedule, whether or not earlier responses have arrived, and
/// measures each latency from the scheduled time, so that it includes the time that a stalled server delays the
/// requests after it.
///
/// The first response, and every 1024th after it, is compared with --expect; of all others, status and length
/// are checked.
#[derive(Debug, Parser)]
#[command(
    name = "load",
    after_help = "Examples:\n  \
    load --address 127.0.0.1:8000 --model add_sub --protocol http-binary --connections 32 \\\n    \
      --input INPUT0:FP32:1,16=a.bin --input INPUT1:FP32:1,16=b.bin --expect OUTPUT0:FP32:1,16=sum.bin\n  \
    load ... --rate 5000 --connections 256     open loop, Poisson arrivals, 5000 a second\n\n\
    Tensor files are raw little-endian numbers, row-major. Pin the load generator to a core of its own\n\
    (taskset). If client_cpu_us times requests_per_s comes near a million, it is the bottleneck."
)]
pub(crate) struct Args {
    /// Address of the server for the protocol
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) address: SocketAddr,
    /// Name of the model
    #[arg(long)]
    pub(crate) model: String,
    /// Protocol of the requests
    #[arg(long, value_enum, default_value = "http-binary")]
    pub(crate) protocol: Protocol,
    /// An input: name, datatype (FP32 or INT64), shape with the batch first, file. Repeatable
    #[arg(long = "input", value_name = "NAME:TYPE:DIMS=FILE", required = true)]
    pub(crate) inputs: Vec<TensorFile>,
    /// An expected output, within --tolerance. Repeatable
    #[arg(long = "expect", value_name = "NAME:TYPE:DIMS=FILE")]
    pub(crate) expected: Vec<TensorFile>,
    /// Largest difference from an expected element, absolute or relative to it
    #[arg(long, default_value_t = 1e-3)]
    pub(crate) tolerance: f64,
    /// Number of connections; in a closed loop also of requests in flight
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Open loop: requests a second
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Open loop: spacing of the requests
    #[arg(long, value_enum, default_value = "poisson")]
    pub(crate) arrivals: Arrivals,
    /// Open loop: way to wait until the next request is due
    #[arg(long, value_enum, default_value = "poll")]
    pub(crate) wait: Wait,
    /// Open loop: seed of Poisson arrivals
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Time of load before the measurement
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    pub(crate) warm_up: f64,
    /// Time of the measurement
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS")]
    pub(crate) duration: f64,
    /// Process id of the server, to report its processor time and context switches
    #[arg(long)]
    pub(crate) pid: Option<u32>,
}

/// The protocol and encoding of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// HTTP/1.1, tensors as JSON numbers both ways
    HttpJson,
    /// HTTP/1.1 with the binary tensor extension both ways
    HttpBinary,
    /// gRPC `ModelInfer` with raw contents
    Grpc,
}

/// The spacing of an open loop's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrivals {
    /// Independent callers: exponential gaps
    Poisson,
    /// Equal gaps between requests
    Uniform,
}

/// The way an open loop waits until the next request is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// Poll the clock: exact, uses the whole core
    Poll,
    /// Wait for a timer: tens of microseconds late, for shared cores
    Timer,
}

impl Args {
    /// Returns the times of warm-up and measurement.
    ///
    /// Fails if a time is negative, or if the measurement's time is zero.
    pub(crate) fn times(&self) -> anyhow::Result<(Duration, Duration)> {
        let warm_up = Duration::try_from_secs_f64(self.warm_up).context("--warm-up")?;
        let duration = Duration::try_from_secs_f64(self.duration).context("--duration")?;
        ensure!(!duration.is_zero(), "--duration must be positive");
        Ok((warm_up, duration))
    }
}
