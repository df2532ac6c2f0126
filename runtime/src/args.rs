//! Flags of `weir-runtime`: Triton's names and defaults, and a few of Weir's own.
//!
//! Triton's flags are of three kinds: some have an effect here, some are ignored with one note in the log, and some
//! need features that Weir does not have and are refused by name. `docs/flags.md` is generated from [`command`].

mod build;
mod config;
mod device;
mod grpc;
mod http;
mod limits;
mod logs;
mod models;
mod restrict;
mod tls;
mod triton_flags;
mod values;

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser};

pub(crate) use config::{Config, GrpcConfig, HttpConfig, OnLoadError, TlsConfig};
pub use device::DeviceChoice;

/// The program's names in its image.
const NAMES: [&str; 2] = ["weir-runtime", "tritonserver"];

/// Text after the flags in `--help`.
const EXAMPLES: &str = "\
Examples:
  Serve every model of a directory on Triton's ports (8000 HTTP, 8001 gRPC, 8002 metrics):
    weir-runtime --model-repository /models

  Serve one TorchScript file under the name 'digits', on the CPU:
    weir-runtime --model-repository digits/model.pt --model-name digits --device cpu

  Load models on request only:
    weir-runtime --model-repository /models --model-control-mode explicit --load-model digits

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage, 3 port taken.";

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
    tls: tls::TlsArgs,
    #[command(flatten)]
    limits: limits::LimitArgs,
    #[command(flatten)]
    logs: logs::LogArgs,
}

/// Exit codes of the process; scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Stopped by a signal, or help printed: 0.
    Done,
    /// Failed at start or while stopping: 1.
    Failed,
    /// Wrong or missing flags: 2.
    Usage,
    /// A port that another process listens on: 3.
    PortTaken,
}

/// The reason why no [`Config`] can be built from the flags.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgsError {
    /// Unknown or unreadable flags, and `--help` and `--version`.
    #[error("{0}")]
    Usage(#[from] clap::Error),
    /// Flags that contradict each other or are refused, one sentence each.
    #[error("{}", .0.iter().map(|error| format!("error: {error}")).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<String>),
}

/// Returns the command with every flag, for parsing, help and documentation. When a flag is repeated the last value
/// counts, as in Triton: the arguments of a service follow those of its ServingRuntime.
#[must_use]
pub fn command() -> clap::Command {
    triton_flags::add_to(Args::command()).args_override_self(true)
}

/// Parses the flags; the first argument is the program's name.
///
/// # Errors
/// [`ArgsError`] with every wrong flag, or with the text of `--help` or `--version`.
pub(crate) fn parse<I, T>(argv: I) -> Result<Config, ArgsError>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let matches = command().try_get_matches_from(without_repeated_name(argv)).map_err(with_hint)?;
    let args = Args::from_arg_matches(&matches)?;
    let known = triton_flags::given(&matches);
    build::build(args, known).map_err(ArgsError::Invalid)
}

/// Drops the program's name if it is also the first argument: the entry point of Triton's image runs the command in a
/// pod's `args`, and pods written for it must work with this image.
fn without_repeated_name<T: Into<OsString>>(argv: impl IntoIterator<Item = T>) -> Vec<OsString> {
    let mut argv = argv.into_iter().map(Into::into).collect::<Vec<_>>();
    let first = argv.get(1).and_then(|first| Path::new(first).file_name());
    if first.is_some_and(|name| NAMES.iter().any(|known| name == *known)) {
        argv.remove(1);
    }
    argv
}

/// Adds a hint about `--model-repository` to the error for an argument that is not a flag.
fn with_hint(mut error: clap::Error) -> clap::Error {
    let word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if !word.starts_with('-') => word.clone(),
        Some(_) | None => return error,
    };
    if error.kind() == ErrorKind::UnknownArgument {
        let hint = format!("a path to serve follows a flag: --model-repository {word}");
        let hint = ContextValue::StyledStrs(vec![hint.into()]);
        error.insert(ContextKind::Suggested, hint);
    }
    error
}

impl ArgsError {
    /// The exit code; 0 for `--help` and `--version`.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(error) if !error.use_stderr() => Exit::Done,
            Self::Usage(_) | Self::Invalid(_) => Exit::Usage,
        }
    }

    /// Prints help to standard output, errors to standard error.
    pub(crate) fn print(&self) {
        match self {
            // If standard output or error is closed, the failure cannot be reported anywhere.
            Self::Usage(error) => drop(error.print()),
            Self::Invalid(_) => eprintln!("{self}\n\nFor more information, try '--help'."),
        }
    }
}

impl Exit {
    /// The exit code as a number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::PortTaken => 3,
        }
    }
}

#[cfg(test)]
mod tests;
