//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};

use crate::tensor::Description;

/// Sends the same inference request over and over and reports how fast it was answered, as JSON.
///
/// A closed loop (the default) keeps one request under way on each connection: it finds out how much a
/// server can do. An open loop (--rate) sends when a schedule says, whether or not earlier answers
/// came, and counts each latency from the moment the request was meant to be sent, so that a server
/// that stalls cannot hide it: it finds out how long callers wait.
///
/// The first answer, and every 1024th after it, is compared with what --expect gives; of all the others
/// status and length are.
#[derive(Debug, Parser)]
#[command(
    name = "load",
    after_help = "Examples:\n  \
    load --address 127.0.0.1:8000 --model add_sub --protocol http-binary --connections 32 \\\n    \
      --input INPUT0:FP32:1,16=a.bin --input INPUT1:FP32:1,16=b.bin --expect OUTPUT0:FP32:1,16=sum.bin\n  \
    load ... --rate 5000 --connections 256     open loop, Poisson arrivals, 5000 a second\n\n\
    Tensor files are raw little-endian numbers, row-major. Pin it to a core of its own (taskset), and\n\
    see that client_cpu_us times requests_per_s stays well below a million: else it is the limit."
)]
pub(crate) struct Args {
    /// Where the server listens for that protocol
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) address: SocketAddr,
    /// The model to ask
    #[arg(long)]
    pub(crate) model: String,
    /// How to ask it
    #[arg(long, value_enum, default_value = "http-binary")]
    pub(crate) protocol: Protocol,
    /// An input: name, datatype (FP32 or INT64), shape with the batch first, file. Repeatable
    #[arg(long = "input", value_name = "NAME:TYPE:DIMS=FILE", required = true)]
    pub(crate) inputs: Vec<Description>,
    /// What an output must be, within --tolerance. Repeatable
    #[arg(long = "expect", value_name = "NAME:TYPE:DIMS=FILE")]
    pub(crate) expected: Vec<Description>,
    /// The greatest difference from an expected element, absolute or relative to it
    #[arg(long, default_value_t = 1e-3)]
    pub(crate) tolerance: f64,
    /// Connections; in a closed loop as many requests are under way
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Open loop: requests a second
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Open loop: how far apart they are
    #[arg(long, value_enum, default_value = "poisson")]
    pub(crate) arrivals: Arrivals,
    /// Open loop: how the next moment is waited for
    #[arg(long, value_enum, default_value = "poll")]
    pub(crate) wait: Wait,
    /// Open loop: what Poisson arrivals are drawn from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How long to load before measuring
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    pub(crate) warm_up: f64,
    /// How long to measure
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS")]
    pub(crate) duration: f64,
    /// The server's process, whose processor time and context switches are reported
    #[arg(long)]
    pub(crate) pid: Option<u32>,
}

/// What the requests travel in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// HTTP/1.1, tensors as JSON numbers both ways
    HttpJson,
    /// HTTP/1.1 with the binary tensor extension both ways
    HttpBinary,
    /// gRPC `ModelInfer` with raw contents
    Grpc,
}

/// How an open loop spaces its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrivals {
    /// Independent callers: exponential gaps
    Poisson,
    /// Equal gaps
    Uniform,
}

/// How an open loop waits until it may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// Exactly; takes all of the core
    Poll,
    /// By a timer, tens of microseconds late; for who shares the core
    Timer,
}

impl Args {
    /// Time before measuring, and time measured.
    ///
    /// # Errors
    /// Numbers that are not positive times.
    pub(crate) fn times(&self) -> anyhow::Result<(Duration, Duration)> {
        let warm_up = Duration::try_from_secs_f64(self.warm_up).context("--warm-up")?;
        let duration = Duration::try_from_secs_f64(self.duration).context("--duration")?;
        ensure!(!duration.is_zero(), "--duration is zero");
        Ok((warm_up, duration))
    }
}
