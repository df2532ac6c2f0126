//! One replica: a pod, or a process.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// One running copy of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Unique in its namespace for as long as it lives; a restart keeps it.
    pub name: Arc<str>,
    /// Phase that it is in.
    pub phase: Phase,
    /// Addresses at which it listens, or will; a restart may change them.
    pub endpoints: Endpoints,
    /// Number of starts after the first.
    pub restarts: u32,
    /// Cause of its not being ready, now or before. Cleared when it becomes ready.
    pub failure: Option<Failure>,
}

/// Phase in the life of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not started: it waits for a place, an image or its model's files.
    Pending,
    /// Started; its model loads.
    Starting,
    /// Its model is loaded: it takes requests.
    Ready,
    /// It was ready and is not at the moment; it still runs.
    Unready,
    /// It ended by itself and waits to be started again.
    BackOff,
    /// It is about to be stopped: it finishes what it has and takes nothing new.
    Terminating,
}

impl Phase {
    /// Whether it counts towards the replicas that are desired.
    #[must_use]
    pub fn is_counted(self) -> bool {
        self != Self::Terminating
    }
}

/// Addresses at which a replica listens. Both may be one address, which then speaks both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Address that speaks HTTP/1.1.
    pub http: Option<Address>,
    /// Address that speaks gRPC: HTTP/2 by prior knowledge.
    pub grpc: Option<Address>,
}

/// Address of a server's socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// IP address and TCP port.
    Tcp(SocketAddr),
    /// A Unix socket on this machine.
    Unix(Arc<Path>),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Cause of a replica's not being ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind, for machines.
    pub reason: FailureReason,
    /// One sentence for people.
    pub message: Arc<str>,
    /// Exit status of the program that ended: its code, or 128 and the number of the signal.
    pub exit_code: Option<i32>,
    /// Time of the failure in seconds since 1970, as far as it is known.
    pub at: Option<u64>,
}

impl Failure {
    /// A failure of which no time and no exit status are known.
    #[must_use]
    pub fn new(reason: FailureReason, message: impl Into<Arc<str>>) -> Self {
        Self {
            reason,
            message: message.into(),
            exit_code: None,
            at: None,
        }
    }
}

/// Kinds of failure of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// The model's files could not be had.
    StorageFailed,
    /// It could not be started at all: no such program, no such image, a taken port.
    NotStarted,
    /// It started and ended.
    Exited,
    /// It ended again and again; the next start waits.
    CrashLoopBackOff,
    /// It runs and does not become ready.
    NotReady,
    /// Its node does not answer.
    NodeNotReady,
}

impl FailureReason {
    /// Every reason there is.
    pub const ALL: [Self; 6] = [
        Self::StorageFailed,
        Self::NotStarted,
        Self::Exited,
        Self::CrashLoopBackOff,
        Self::NotReady,
        Self::NodeNotReady,
    ];

    /// As conditions spell it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::StorageFailed => "StorageFailed",
            Self::NotStarted => "NotStarted",
            Self::Exited => "Exited",
            Self::CrashLoopBackOff => "CrashLoopBackOff",
            Self::NotReady => "NotReady",
            Self::NodeNotReady => "NodeNotReady",
        }
    }
}
