//! The flags of `weir-runtime`: Triton's names and defaults, and a few of ours.
//!
//! Three kinds of Triton flag: those with an effect here; those whose absence nobody would notice, accepted
//! and logged once; those whose absence would change what the user gets, refused by name.
//! `docs/flags.md` is generated from [`command`].

mod build;
mod config;
mod device;
mod grpc;
mod http;
mod known;
mod limits;
mod logs;
mod models;
mod restrict;
mod values;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser};

pub use config::{Config, GrpcConfig, HttpConfig, MetricsConfig, OnLoadError};
pub use device::DeviceChoice;
pub use grpc::Compression;
pub use restrict::{ApiGroup, Restriction, missing_key};

/// Where `--help` sends those who want to see it work.
const EXAMPLES: &str = "\
Examples:
  Serve every model of a directory on Triton's ports (8000 HTTP, 8001 gRPC, 8002 metrics):
    weir-runtime --model-repository /models

  Serve one TorchScript file under the name 'digits', on the CPU:
    weir-runtime --model-repository digits/model.pt --model-name digits --device cpu

  Load models on request only:
    weir-runtime --model-repository /models --model-control-mode explicit --load-model digits

Exit codes: 0 ended as asked, 1 failed, 2 wrong usage, 3 port taken.";

/// Serves TorchScript models over the V2 (Open Inference) protocol, HTTP and gRPC, batched.
#[derive(Debug, Parser)]
#[command(name = "weir-runtime", version, after_help = EXAMPLES, max_term_width = 100)]
struct Args {
    #[command(flatten)]
    models: models::ModelArgs,
    #[command(flatten)]
    device: device::DeviceArgs,
    #[command(flatten)]
    http: http::HttpArgs,
    #[command(flatten)]
    grpc: grpc::GrpcArgs,
    #[command(flatten)]
    limits: limits::LimitArgs,
    #[command(flatten)]
    logs: logs::LogArgs,
}

/// How the process ends; scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// As asked: 0.
    Done,
    /// Something failed: 1.
    Failed,
    /// The flags are wrong: 2.
    Usage,
    /// A port is taken: 3.
    PortTaken,
}

/// Why there is no [`Config`].
#[derive(Debug, thiserror::Error)]
pub enum ArgsError {
    /// Unknown or unreadable flags, or `--help` and `--version`.
    #[error("{0}")]
    Usage(#[from] clap::Error),
    /// Flags that do not fit together or are refused; all of them.
    #[error("{}", .0.iter().map(|fault| format!("error: {fault}")).collect::<Vec<_>>().join("\n"))]
    Faults(Vec<String>),
}

/// The command with every flag, for parsing, help and documentation.
#[must_use]
pub fn command() -> clap::Command {
    known::add_to(Args::command())
}

/// Reads flags, the program's name first.
///
/// # Errors
/// [`ArgsError`] with all that is wrong, or with what `--help` prints.
pub fn parse<I, T>(argv: I) -> Result<Config, ArgsError>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let matches = command().try_get_matches_from(argv)?;
    let args = Args::from_arg_matches(&matches)?;
    let known = known::given(&matches);
    build::build(args, known).map_err(ArgsError::Faults)
}

impl ArgsError {
    /// The exit code it deserves: help is no failure.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(error) if !error.use_stderr() => Exit::Done,
            Self::Usage(_) | Self::Faults(_) => Exit::Usage,
        }
    }

    /// Prints it where it belongs: help to standard output, faults to standard error.
    pub fn print(&self) {
        match self {
            // Nobody is left to tell when standard output or error is closed.
            Self::Usage(error) => drop(error.print()),
            Self::Faults(_) => eprintln!("{self}\n\nFor more information, try '--help'."),
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::from(0),
            Exit::Failed => Self::from(1),
            Exit::Usage => Self::from(2),
            Exit::PortTaken => Self::from(3),
        }
    }
}

#[cfg(test)]
mod tests;
