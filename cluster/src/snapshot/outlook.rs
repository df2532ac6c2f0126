//! The prospect of a revision without a ready replica.

use super::{FailureReason, Phase, Replica};

/// Prospect of a revision without a ready replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outlook {
    /// A replica starts, or will.
    #[default]
    Starts,
    /// Every replica waits after a start that failed, as the one before did.
    Fails,
}

impl Outlook {
    /// The outlook of a revision with these replicas. One that starts may succeed, and so may one that failed once.
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
