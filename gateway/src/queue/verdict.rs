//! The end of a request, for the statistics and for the health of its replica.

use std::time::Duration;

/// Category under which the end of a request is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The request ended without an error of the gateway or the replica.
    Succeeded,
    /// The request ended with an error of the gateway or the replica.
    Failed,
    /// The replica was full and did not work on the request.
    Refused,
    /// The client caused the end, for example by a very short deadline, so the request is not counted.
    Uncounted,
    /// The request has not ended yet, or its end is counted elsewhere.
    Open,
}

/// Result of an attempt at a replica, which decides whether the replica is ejected, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The replica answered after this time.
    Answered(Duration),
    /// The replica answered with an error after this time, which may be much shorter than the work on a request.
    AnsweredError(Duration),
    /// The attempt says nothing about the replica: the client disconnected, or the deadline passed.
    Abandoned,
    /// The request was not sent, because an earlier attempt failed at the same replica.
    Declined,
    /// The replica refused the request without working on it, and the request is retried.
    Refused,
    /// The replica refused the request without working on it, and the refusal is sent to the client.
    Full,
    /// The replica refused the request, and will refuse any other until it is restarted.
    Stuck,
    /// The replica was unreachable, or broke off before it answered.
    Failed,
    /// The replica's response was invalid, a fault that is not expected to pass soon.
    InvalidResponse,
}

impl Outcome {
    /// Returns the time from the request to its answer; `None` if there was none.
    pub(crate) fn service_time(self) -> Option<Duration> {
        match self {
            Self::Answered(took) | Self::AnsweredError(took) => Some(took),
            Self::Abandoned
            | Self::Declined
            | Self::Refused
            | Self::Full
            | Self::Stuck
            | Self::Failed
            | Self::InvalidResponse => None,
        }
    }
}
