//! One replica: a pod or a process.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

/// One running copy of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Name, unique in the namespace during the replica's life; a restart keeps it.
    pub name: Arc<str>,
    /// Phase of the replica's life.
    pub phase: Phase,
    /// Addresses at which the replica listens or will listen; a restart may change them.
    pub endpoints: Endpoints,
    /// Number of starts after the first.
    pub restarts: u32,
    /// Cause of the current or last time that the replica was not ready. None for a ready replica, and for a new one
    /// without a failure.
    pub failure: Option<Failure>,
    /// The last unexpected exit of the replica's program, kept while the replica serves again; None if there was none.
    pub last_exit: Option<Failure>,
    /// Progress of the download of the model's files, such as `fetching 3.1 of 12.4 GB, 210 MB/s, 44 s left`; `None` if
    /// no download runs or its progress is unknown.
    pub download: Option<Arc<str>>,
}

impl Replica {
    /// Creates a replica without addresses and without a failure.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, phase: Phase) -> Self {
        Self {
            name: name.into(),
            phase,
            endpoints: Endpoints::default(),
            restarts: 0,
            failure: None,
            last_exit: None,
            download: None,
        }
    }

    /// Returns the exit of the run that was preceded by `starts_before` starts; `None` if that run has not ended or its
    /// exit is not known any more.
    #[must_use]
    pub fn exit_of_run(&self, starts_before: u32) -> Option<&Failure> {
        let last_ended = match self.phase {
            Phase::BackOff => Some(self.restarts),
            Phase::Pending | Phase::Starting | Phase::Ready | Phase::Unready | Phase::Terminating => {
                self.restarts.checked_sub(1)
            }
        };
        let is_last_run = last_ended == Some(starts_before);
        self.last_exit.as_ref().filter(|_| is_last_run)
    }
}

/// Phase of a replica's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not started: the replica waits for a node, an image or its model's files.
    Pending,
    /// The process has started and loads its model.
    Starting,
    /// The model is loaded and the replica accepts requests.
    Ready,
    /// The replica was ready, is not at the moment, and still runs.
    Unready,
    /// The program exited or could not be started, and waits for its next start.
    BackOff,
    /// The replica is being stopped: it finishes its requests and accepts no new ones.
    Terminating,
}

impl Phase {
    /// Returns true if a replica in this phase counts towards the desired number.
    #[must_use]
    pub fn is_counted(self) -> bool {
        self != Self::Terminating
    }
}

/// Addresses at which a replica listens. HTTP and gRPC may have the same address, which then accepts both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Address that accepts HTTP/1.1; None if the replica does not serve it, or the address is not known yet.
    pub http: Option<Address>,
    /// Address that accepts gRPC (HTTP/2 with prior knowledge); None if the replica does not serve it, or the address
    /// is not known yet.
    pub grpc: Option<Address>,
    /// Address of the metrics; None if they are at the address for HTTP, or nowhere.
    pub metrics: Option<Address>,
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

/// Cause of a failure of a replica or a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind of failure, for programs.
    pub reason: FailureReason,
    /// Description for users: one sentence.
    pub message: Arc<str>,
    /// Exit status of the program: its exit code, or 128 plus the number of the signal that killed it. None if the
    /// program did not exit, or its status is unknown.
    pub exit_code: Option<i32>,
    /// Time of the failure, in seconds since 1970; `None` if unknown.
    pub at: Option<u64>,
    /// Resources that the replica lacks because no node has enough left, or because a quota is exhausted, such as
    /// `nvidia.com/gpu`; `None` for other causes.
    pub lacks: Option<Arc<str>>,
}

impl Failure {
    /// Creates a failure without time and exit status.
    #[must_use]
    pub fn new(reason: FailureReason, message: impl Into<Arc<str>>) -> Self {
        Self { reason, message: message.into(), exit_code: None, at: None, lacks: None }
    }

    /// Returns the exit status and time of the program's exit, such as `exit status 137 at 2026-11-26T20:00:00Z`;
    /// `None` if no program exited.
    #[must_use]
    pub fn exit(&self) -> Option<String> {
        let status = format!("exit status {}", self.exit_code?);
        let at = self.at.and_then(|at| Timestamp::from_second(i64::try_from(at).ok()?).ok());
        Some(at.map_or(status.clone(), |at| format!("{status} at {at}")))
    }

    /// Returns the message of the failure. If the failure is not a program's exit, the message also says how the last
    /// program ended.
    #[must_use]
    pub fn sentence(&self, last_exit: Option<&Self>) -> String {
        match last_exit.filter(|_| self.exit_code.is_none()) {
            Some(last) => {
                let exit = last.exit().map_or(String::new(), |exit| format!(" ({exit})"));
                format!("{}; its program ended before: {}{exit}", self.message, last.message)
            }
            None => self.message.to_string(),
        }
    }

    /// Returns true if one of the program's requests may have ended it: the program crashed, exited with an error, or
    /// was killed because it hung. An out-of-memory kill counts too, because most of a program's memory is that of its
    /// requests. A program that was ended by a signal from outside does not count.
    #[must_use]
    pub fn may_be_caused_by_request(&self) -> bool {
        match self.reason {
            FailureReason::Hung | FailureReason::OutOfMemory => true,
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

/// SIGHUP, SIGINT, SIGQUIT, SIGKILL and SIGTERM, which users and platforms send. The kernel also sends SIGKILL when
/// memory runs out, which only some platforms report.
const SIGNALS_FROM_OUTSIDE: [i32; 5] = [1, 2, 3, 9, 15];

/// Kinds of failure of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// The model's files could not be fetched.
    StorageFailed,
    /// The program could not be started: program or image not found, or port in use.
    NotStarted,
    /// The program started and exited.
    Exited,
    /// The program exited repeatedly; its next start is delayed.
    CrashLoopBackOff,
    /// The program was killed because it exceeded its memory limit.
    OutOfMemory,
    /// The program stopped responding and was killed for it.
    Hung,
    /// The program runs but does not become ready.
    NotReady,
    /// The node of the replica does not respond.
    NodeNotReady,
}

impl FailureReason {
    /// All failure reasons, each of them once.
    pub const ALL: [Self; 8] = [
        Self::StorageFailed,
        Self::NotStarted,
        Self::Exited,
        Self::CrashLoopBackOff,
        Self::OutOfMemory,
        Self::Hung,
        Self::NotReady,
        Self::NodeNotReady,
    ];

    /// The reason word used in conditions.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::StorageFailed => "StorageFailed",
            Self::NotStarted => "NotStarted",
            Self::Exited => "Exited",
            Self::CrashLoopBackOff => "CrashLoopBackOff",
            Self::OutOfMemory => "OutOfMemory",
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
        // Exit by itself, SIGILL, SIGABRT, SIGBUS, SIGFPE and SIGSEGV may come from a request. A requested exit,
        // SIGKILL (for example an eviction), SIGTERM and SIGINT do not.
        for code in [1, 3, 132, 134, 135, 136, 139] {
            assert!(ended(FailureReason::Exited, Some(code)).may_be_caused_by_request(), "{code}");
        }
        for code in [Some(0), Some(137), Some(143), Some(130), None] {
            let end = ended(FailureReason::Exited, code);
            assert!(!end.may_be_caused_by_request(), "{code:?}");
        }
        assert!(ended(FailureReason::Hung, None).may_be_caused_by_request());
        assert!(ended(FailureReason::OutOfMemory, Some(137)).may_be_caused_by_request());
        assert!(ended(FailureReason::CrashLoopBackOff, Some(139)).may_be_caused_by_request());
        assert!(!ended(FailureReason::NotReady, None).may_be_caused_by_request());
    }

    #[test]
    fn an_exit_belongs_to_the_run_that_ended_last() {
        let replica = |phase, restarts| Replica {
            restarts,
            last_exit: Some(ended(FailureReason::Exited, Some(139))),
            ..Replica::new("a", phase)
        };
        let waits = replica(Phase::BackOff, 2);
        let runs = replica(Phase::Starting, 3);
        for ended in [waits, runs] {
            let known = [1, 2, 3].map(|run| ended.exit_of_run(run).is_some());
            assert_eq!(known, [false, true, false], "{ended:?}");
        }
    }
}
