//! What ends a command before its time.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use weir_cluster::ClusterError;
use weir_controller::ControllerError;

use crate::exit::Exit;

/// What ends a command before its time; each is one sentence for people.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// What is declared has mistakes, a line each, with file, line, column and field.
    #[error("{}", .0.join("\n"))]
    Mistakes(Vec<String>),
    /// A flag that cannot be followed.
    #[error("{0}")]
    Usage(String),
    /// Somebody has the port.
    #[error("port {} is taken ({flag}): another process listens on it. Choose another port with {flag}, or find the process with `ss -ltnp 'sport = :{}'`", .address.port(), .address.port())]
    PortTaken {
        /// The flag that sets it.
        flag: &'static str,
        /// Where.
        address: SocketAddr,
    },
    /// Something of the operating system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Its reason.
        source: io::Error,
    },
    /// A program that is needed is not there.
    #[error("weir-runtime is missing: it is neither beside {} nor in PATH, and {service} needs it. Build it with `make build`, or name it with --runtime PATH", .weir.display())]
    RuntimeMissing {
        /// Our own path.
        weir: PathBuf,
        /// A service that needs it.
        service: String,
    },
    /// Another process has the state directory.
    #[error("another `weir up`{} uses the state directory {}: end it, or give this one its own with --state-dir", of_process(*.holder), .state_dir.display())]
    StateTaken {
        /// The directory.
        state_dir: PathBuf,
        /// Its process, where it says.
        holder: Option<u32>,
    },
    /// No `weir up` was found.
    #[error("no `weir up` runs with the state directory {}: {because}", .state_dir.display())]
    NotUp {
        /// Where it was looked for.
        state_dir: PathBuf,
        /// What was found.
        because: String,
    },
    /// A server did not answer as it should.
    #[error("{url}: {because}")]
    Server {
        /// Who.
        url: String,
        /// What it said or did.
        because: String,
    },
    /// A file with an input that cannot be sent.
    #[error("{}: {because}", .file.display())]
    Input {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        because: String,
    },
    /// The cluster on this machine.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Reading what is declared.
    #[error(transparent)]
    Controller(ControllerError),
}

impl CliError {
    /// The operating system's reason, with what was tried.
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io {
            what: what.into(),
            source,
        }
    }

    /// The exit code it deserves.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Mistakes(_) | Self::Usage(_) | Self::Input { .. } => Exit::Usage,
            Self::PortTaken { .. } => Exit::PortTaken,
            Self::Io { .. }
            | Self::RuntimeMissing { .. }
            | Self::StateTaken { .. }
            | Self::NotUp { .. }
            | Self::Server { .. }
            | Self::Cluster(_)
            | Self::Controller(_) => Exit::Failed,
        }
    }

    /// What people are told. Mistakes begin with their place, so that editors find it.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Mistakes(_) => self.to_string(),
            Self::Usage(_)
            | Self::Input { .. }
            | Self::PortTaken { .. }
            | Self::Io { .. }
            | Self::RuntimeMissing { .. }
            | Self::StateTaken { .. }
            | Self::NotUp { .. }
            | Self::Server { .. }
            | Self::Controller(_) => format!("error: {self}"),
            Self::Cluster(error) => format!("error: {}", with_reasons(error)),
        }
    }
}

fn of_process(id: Option<u32>) -> String {
    id.map_or(String::new(), |id| format!(" (process {id})"))
}

/// The sentence and, behind it, what it leaves to its sources.
fn with_reasons(error: &ClusterError) -> String {
    let first = std::error::Error::source(error);
    let reasons = std::iter::successors(first, |reason| reason.source());
    reasons.fold(error.to_string(), |text, reason| {
        format!("{text}: {reason}")
    })
}

impl From<ControllerError> for CliError {
    fn from(error: ControllerError) -> Self {
        match error {
            ControllerError::InvalidManifests(mistakes) => Self::Mistakes(mistakes),
            // A path that is not there was given by a flag.
            ControllerError::Read { .. } => Self::Usage(error.to_string()),
            ControllerError::Watch { .. }
            | ControllerError::Cluster(_)
            | ControllerError::Deadline { .. } => Self::Controller(error),
        }
    }
}
