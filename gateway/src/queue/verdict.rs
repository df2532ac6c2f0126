//! How a request ended: for the counts, and for the replica that had it.

use std::time::Duration;

/// How a request counts once it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It ended without an error of the gateway or the replica.
    Succeeded,
    /// It ended with an error of the gateway or the replica.
    Failed,
    /// The replica was full and did not work on it.
    Refused,
    /// It ended by its client's own doing, which is not counted.
    Uncounted,
    /// It has not ended yet, or its end is counted elsewhere.
    Open,
}

/// What an attempt at a replica says about the replica: whether it is ejected, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It answered after this time.
    Answered(Duration),
    /// It answered with an error of its own after this time, which may be much less than it works on a request.
    AnsweredError(Duration),
    /// Nothing: the client disconnected, or the deadline passed.
    Abandoned,
    /// The request was not sent, because an earlier attempt failed there.
    Declined,
    /// It refused the request without working on it, and the request is sent again.
    Refused,
    /// It refused the request without working on it, and the refusal is passed on to the client.
    Full,
    /// It refused the request, and any other until it is restarted.
    Stuck,
    /// It was unreachable, or broke off before it answered.
    Failed,
    /// Its response was invalid, which does not pass in a moment.
    InvalidResponse,
}

impl Outcome {
    /// Time from the request to its answer; `None` if there was none.
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
