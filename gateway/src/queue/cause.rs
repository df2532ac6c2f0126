//! Describes failures to clients. A platform's message may quote a program's output and paths of the machine, so clients
//! read only the kind of the failure and the exit status. The message is in the log and in the service's status.

use weir_cluster::{Failure, FailureReason};

/// Describes a failure and, if it is not a program's exit, how the last program ended.
pub(crate) fn describe(failure: &Failure, last_exit: Option<&Failure>) -> String {
    let now = one(failure);
    match last_exit.filter(|_| failure.exit_code.is_none()) {
        Some(last) => format!("{now}; its program ended before: {}", one(last)),
        None => now,
    }
}

fn one(failure: &Failure) -> String {
    let (label, sentence) = (failure.reason.label(), sentence(failure.reason));
    failure.exit().map_or_else(|| format!("{label}: {sentence}"), |exit| format!("{label}: {sentence} ({exit})"))
}

fn sentence(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::StorageFailed => "the model's files cannot be fetched",
        FailureReason::NotStarted => "the program cannot be started",
        FailureReason::Exited => "the program ended",
        FailureReason::CrashLoopBackOff => "the program ends again and again",
        FailureReason::OutOfMemory => "the program exceeded its memory limit",
        FailureReason::Hung => "the program stopped responding",
        FailureReason::NotReady => "the program runs but does not become ready",
        FailureReason::NodeNotReady => "the node does not respond",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_the_kind_and_the_exit_status_but_not_the_message() {
        let message = "\x1b[31msecret (log: /models/a/log)";
        for reason in FailureReason::ALL {
            let failure = Failure::new(reason, message);
            let exit = Failure { exit_code: Some(3), ..Failure::new(FailureReason::Exited, message) };
            let text = describe(&failure, Some(&exit));
            assert!(text.starts_with(&format!("{}: the ", reason.label())), "{text}");
            assert!(text.ends_with("; its program ended before: Exited: the program ended (exit status 3)"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }
}
