//! The error that ends a command.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weir_cluster::ClusterError;
use weir_controller::ControllerError;
use weir_fetch::FetchError;

/// An error that ends a command, as one sentence for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Errors in the YAML, one line each, with file, line, column and field.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
    /// Wrong value or combination of flags.
    #[error("{0}")]
    Usage(String),
    /// Another process listens on the port.
    #[error("port {} is in use by another process ({flag}). Choose another port with {flag}, or find the process with `ss -ltnp 'sport = :{}'`", .address.port(), .address.port())]
    PortTaken {
        /// The flag that sets the port.
        flag: &'static str,
        /// Address of the port.
        address: SocketAddr,
    },
    /// The operating system does not let this process listen on the port.
    #[error("cannot listen on {address} ({flag}): {source}{}", weir_serve::advice(.source))]
    PortRefused {
        /// The flag that sets the port.
        flag: &'static str,
        /// Address of the port.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// An operation of the operating system failed.
    #[error("{what}: {source}")]
    Io {
        /// Text that says which operation failed.
        what: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The program weir-runtime is not installed.
    #[error("weir-runtime not found: {service} needs it, and it is neither beside {} nor in PATH. Build it with `make build`, or set --runtime PATH", .weir.display())]
    RuntimeMissing {
        /// Path of this program.
        weir: PathBuf,
        /// A service that needs weir-runtime.
        service: String,
    },
    /// Another process uses the state directory.
    #[error("the state directory {1} is in use by another `weir up`{0}: stop that one, or set another directory with --state-dir", of_process(*.holder), .state_dir.display())]
    StateTaken {
        /// The state directory in use.
        state_dir: PathBuf,
        /// Process id of the other `weir up`, if known.
        holder: Option<u32>,
    },
    /// The state directory cannot be created or written.
    #[error("the state directory {} is not available: {source}. Set another one with --state-dir", .state_dir.display())]
    StateUnavailable {
        /// The state directory in question.
        state_dir: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// No running `weir up` was found.
    #[error("no `weir up` runs with the state directory {}: {reason}. Start one with `weir up -f PATH`, or name the directory of another with --state-dir", .state_dir.display())]
    NotUp {
        /// The state directory that was searched.
        state_dir: PathBuf,
        /// Clause that says why no `weir up` was found.
        reason: String,
    },
    /// A request to a server failed, or its response is not usable.
    #[error("{url}: {reason}")]
    Server {
        /// URL of the request.
        url: String,
        /// Clause that says what failed.
        reason: String,
    },
    /// A server did not answer before the timeout.
    #[error("{url}: no answer within {seconds} s")]
    NoAnswer {
        /// URL of the request.
        url: String,
        /// Timeout of the request, in seconds.
        seconds: u64,
    },
    /// Nothing listens on the port of a server.
    #[error(
        "nothing listens on {address}: start it with `weir up -f FILE`, or give the address of another gateway with --url http://HOST:PORT"
    )]
    NothingListens {
        /// Host and port of the server.
        address: String,
    },
    /// An input file cannot be sent.
    #[error("{}: {reason}", .file.display())]
    Input {
        /// Path of the file.
        file: PathBuf,
        /// Clause that says what is wrong with the file.
        reason: String,
    },
    /// A model could not be downloaded.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// An error of the local cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// An error of the controller while it reads the YAML.
    #[error(transparent)]
    Controller(ControllerError),
}

impl CliError {
    /// Creates an error for a failed operation; `what` says which one.
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }

    /// Returns the exit code of a command that ends with this error.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Invalid(_) | Self::Usage(_) | Self::Input { .. } | Self::Fetch(FetchError::Address { .. }) => {
                Exit::Usage
            }
            Self::PortTaken { .. } => Exit::PortTaken,
            Self::Io { .. }
            | Self::RuntimeMissing { .. }
            | Self::StateTaken { .. }
            | Self::StateUnavailable { .. }
            | Self::PortRefused { .. }
            | Self::NotUp { .. }
            | Self::Server { .. }
            | Self::NoAnswer { .. }
            | Self::NothingListens { .. }
            | Self::Fetch(_)
            | Self::Cluster(_)
            | Self::Controller(_) => Exit::Failed,
        }
    }

    /// Returns the text for standard error. Errors in YAML begin with their location, so that editors can jump to it.
    pub(crate) fn report(&self) -> String {
        match self {
            Self::Invalid(_) => self.to_string(),
            Self::Usage(_)
            | Self::Input { .. }
            | Self::PortTaken { .. }
            | Self::Io { .. }
            | Self::RuntimeMissing { .. }
            | Self::StateTaken { .. }
            | Self::StateUnavailable { .. }
            | Self::PortRefused { .. }
            | Self::NotUp { .. }
            | Self::Server { .. }
            | Self::NoAnswer { .. }
            | Self::NothingListens { .. }
            | Self::Controller(_) => format!("error: {self}"),
            Self::Cluster(error) => format!("error: {}", with_sources(error)),
            Self::Fetch(error) => format!("error: {}", with_sources(error)),
        }
    }
}

fn of_process(id: Option<u32>) -> String {
    id.map_or(String::new(), |id| format!(" (process {id})"))
}

/// Returns advice for a URL given to `-f`, which `kubectl` accepts and `weir` does not.
fn url_as_path(url: &Path) -> String {
    format!(
        "-f takes a file, a folder or -, not a URL: to read {0}, run `curl -fsSL {0}` and pipe it to this \
         command with -f -",
        url.display()
    )
}

/// Returns the error's message followed by those of its sources.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let first = error.source();
    let sources = std::iter::successors(first, |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

impl From<ControllerError> for CliError {
    fn from(error: ControllerError) -> Self {
        match error {
            // The path came from a flag.
            ControllerError::Read { ref path, .. } if path.to_string_lossy().contains("://") => {
                Self::Usage(url_as_path(path))
            }
            ControllerError::Read { .. } => Self::Usage(error.to_string()),
            ControllerError::Watch { .. } | ControllerError::Cluster(_) | ControllerError::Deadline { .. } => {
                Self::Controller(error)
            }
        }
    }
}

/// Outcome of a command, with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded: exit code 0.
    Done,
    /// The command failed: exit code 1.
    Failed,
    /// The flags or the YAML are wrong: exit code 2.
    Usage,
    /// A port is in use: exit code 3.
    PortTaken,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::from(0),
            Exit::Failed => Self::from(1),
            Exit::Usage => Self::from(2),
            Exit::PortTaken => Self::from(3),
        }
    }
}
