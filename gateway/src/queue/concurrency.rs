//! Number of requests that a replica may have at once.

mod measured;

pub(crate) use measured::Usage;

use std::time::Instant;

use measured::MeasuredLimit;

/// Limit of a replica's concurrent requests: the service's `containerConcurrency`, else what the replica reports, else
/// what its throughput shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConcurrencyLimit {
    /// The service's `containerConcurrency`, in requests.
    Configured(u32),
    /// The replica's header `weir-capacity`.
    Reported(u32),
    /// Measured from the number of responses per second.
    Measured(MeasuredLimit),
}

/// A replica that says more than this means "as many as you like".
const MOST_REPORTED: u32 = 65_536;

impl ConcurrencyLimit {
    /// Before anything is known of a replica.
    pub(crate) fn new(configured: Option<u32>) -> Self {
        match configured {
            Some(number) => Self::Configured(number.max(1)),
            None => Self::Measured(MeasuredLimit::new()),
        }
    }

    /// Requests at once, at least one.
    pub(crate) fn limit(&self) -> u32 {
        match self {
            Self::Configured(number) | Self::Reported(number) => *number,
            Self::Measured(measured) => measured.limit(),
        }
    }

    /// Takes what the replica says of itself, unless the service says otherwise.
    pub(crate) fn report(&mut self, capacity: u32) {
        match self {
            Self::Configured(_) => {}
            Self::Reported(_) | Self::Measured(_) => {
                *self = Self::Reported(capacity.clamp(1, MOST_REPORTED));
            }
        }
    }

    /// Learns that a request was sent.
    pub(crate) fn sent(&mut self, usage: Usage, now: Instant) {
        match self {
            Self::Configured(_) | Self::Reported(_) => {}
            Self::Measured(measured) => measured.sent(usage, now),
        }
    }

    /// Learns that a request was answered without an error.
    pub(crate) fn answered(&mut self, usage: Usage, now: Instant) {
        match self {
            Self::Configured(_) | Self::Reported(_) => {}
            Self::Measured(measured) => measured.answered(usage, now),
        }
    }

    /// Learns that the replica refused a request because it has as many as it takes.
    pub(crate) fn refused(&mut self, usage: Usage) {
        match self {
            Self::Configured(_) | Self::Reported(_) => {}
            Self::Measured(measured) => measured.refused(usage),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_service_says_beats_what_the_replica_says() {
        let full = Usage { in_flight: 8, allowed: 8, gateways: 1 };
        let mut credits = ConcurrencyLimit::new(Some(3));
        credits.report(8);
        credits.refused(full);
        assert_eq!(credits.limit(), 3);
        let mut credits = ConcurrencyLimit::new(None);
        credits.report(8);
        credits.refused(full);
        assert_eq!(credits.limit(), 8);
    }
}
