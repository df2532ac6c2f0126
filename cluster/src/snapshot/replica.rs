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
    /// The last end of its program that was not asked for. Kept while it serves again.
    pub last_exit: Option<Failure>,
}

impl Replica {
    /// The end of the run that had so many starts before it, as far as it is known.
    #[must_use]
    pub fn end_of_run(&self, starts_before: u32) -> Option<&Failure> {
        let last_ended = match self.phase {
            Phase::BackOff => Some(self.restarts),
            Phase::Pending | Phase::Starting | Phase::Ready | Phase::Unready | Phase::Terminating => {
                self.restarts.checked_sub(1)
            }
        };
        let is_it = last_ended == Some(starts_before);
        self.last_exit.as_ref().filter(|_| is_it)
    }
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
        Self { reason, message: message.into(), exit_code: None, at: None }
    }

    /// True if a request that the program had may be what ended it: it crashed, exited by itself, or was killed for hanging.
    /// A program that a signal from outside ended says nothing of its requests.
    #[must_use]
    pub fn may_be_of_a_request(&self) -> bool {
        match self.reason {
            FailureReason::Hung => true,
            FailureReason::Exited | FailureReason::CrashLoopBackOff => {
                self.exit_code.is_some_and(|code| code != 0 && !SIGNALS_FROM_OUTSIDE.contains(&(code - 128)))
            }
            FailureReason::StorageFailed
            | FailureReason::NotStarted
            | FailureReason::NotReady
            | FailureReason::NodeNotReady => false,
        }
    }
}

/// SIGHUP, SIGINT, SIGQUIT, SIGKILL and SIGTERM, which people, platforms and the kernel (for want of memory) send.
const SIGNALS_FROM_OUTSIDE: [i32; 5] = [1, 2, 3, 9, 15];

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
    /// It did not answer any more, and was killed for it.
    Hung,
    /// It runs and does not become ready.
    NotReady,
    /// Its node does not answer.
    NodeNotReady,
}

impl FailureReason {
    /// Every reason there is.
    pub const ALL: [Self; 7] = [
        Self::StorageFailed,
        Self::NotStarted,
        Self::Exited,
        Self::CrashLoopBackOff,
        Self::Hung,
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
            Self::Hung => "Hung",
            Self::NotReady => "NotReady",
            Self::NodeNotReady => "NodeNotReady",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(reason: FailureReason, exit_code: Option<i32>) -> Failure {
        Failure { exit_code, ..Failure::new(reason, "it ended") }
    }

    #[test]
    fn a_request_may_end_a_program_by_a_crash_and_not_by_a_signal_from_outside() {
        // Exits by itself, SIGILL, SIGABRT, SIGBUS, SIGFPE and SIGSEGV; asked to end, SIGKILL, SIGTERM, and an eviction.
        for code in [1, 3, 132, 134, 135, 136, 139] {
            assert!(ended(FailureReason::Exited, Some(code)).may_be_of_a_request(), "{code}");
        }
        for code in [Some(0), Some(137), Some(143), Some(130), None] {
            let end = ended(FailureReason::Exited, code);
            assert!(!end.may_be_of_a_request(), "{code:?}");
        }
        assert!(ended(FailureReason::Hung, None).may_be_of_a_request());
        assert!(ended(FailureReason::CrashLoopBackOff, Some(139)).may_be_of_a_request());
        assert!(!ended(FailureReason::NotReady, None).may_be_of_a_request());
    }

    #[test]
    fn an_end_is_of_the_run_that_ended_last() {
        let replica = |phase, restarts| Replica {
            name: "a".into(),
            phase,
            endpoints: Endpoints::default(),
            restarts,
            failure: None,
            last_exit: Some(ended(FailureReason::Exited, Some(139))),
        };
        let waits = replica(Phase::BackOff, 2);
        let runs = replica(Phase::Starting, 3);
        for ended in [waits, runs] {
            let known = [1, 2, 3].map(|run| ended.end_of_run(run).is_some());
            assert_eq!(known, [false, true, false], "{ended:?}");
        }
    }
}
