//! Outlook of a revision without a ready replica.

use super::{FailureReason, Phase, Replica};

/// Expected result of the starts of a revision without a ready replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outlook {
    /// A replica is starting, or will be started.
    #[default]
    Starts,
    /// The last starts of every replica failed, and all replicas wait for their next start.
    Fails,
}

impl Outlook {
    /// Returns the outlook of a revision with these replicas. A replica that is starting, or that failed only once, may
    /// still succeed.
    #[must_use]
    pub fn of(replicas: &[Replica]) -> Self {
        let mut counted = replicas.iter().filter(|replica| replica.phase.is_counted()).peekable();
        if counted.peek().is_some() && counted.all(fails_to_start) { Self::Fails } else { Self::Starts }
    }
}

fn fails_to_start(replica: &Replica) -> bool {
    let reason = replica.failure.as_ref().map(|failure| failure.reason);
    match reason {
        Some(FailureReason::CrashLoopBackOff | FailureReason::NotStarted | FailureReason::StorageFailed) => {
            replica.phase == Phase::BackOff
        }
        Some(
            FailureReason::Exited
            | FailureReason::OutOfMemory
            | FailureReason::Hung
            | FailureReason::NotReady
            | FailureReason::NodeNotReady,
        )
        | None => false,
    }
}
