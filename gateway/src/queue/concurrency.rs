//! The number of requests that a replica may have at once.

mod measured;

pub(crate) use measured::Usage;

use std::time::{Duration, Instant};

use measured::MeasuredLimit;

/// Limit of a replica's concurrent requests: the service's `containerConcurrency`, otherwise the replica's own report,
/// otherwise a number measured from its throughput.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConcurrencyLimit {
    /// The service's `containerConcurrency`, in requests.
    Configured(u32),
    /// The replica's header `weir-capacity`.
    Reported(u32),
    /// Measured from the replica's responses per second. Boxed, because the other limits are small.
    Measured(Box<MeasuredLimit>),
}

/// Largest capacity that is used. A replica that reports more means "no limit".
const MAX_REPORTED: u32 = 65_536;

impl ConcurrencyLimit {
    /// Creates the limit of a replica about which nothing is known yet.
    pub(crate) fn new(configured: Option<u32>) -> Self {
        match configured {
            Some(number) => Self::Configured(number.max(1)),
            None => Self::Measured(Box::new(MeasuredLimit::new())),
        }
    }

    /// Starts a measured limit with the measured limit of another replica of the revision.
    pub(crate) fn learn(&mut self, limit: u32) {
        if let Self::Measured(_) = self {
            *self = Self::Measured(Box::new(MeasuredLimit::learned(limit)));
        }
    }

    /// Starts a measured limit with that of an engine, because a request asks for generated text.
    pub(crate) fn expect_engine(&mut self) {
        if let Self::Measured(measured) = self {
            measured.expect_engine();
        }
    }

    /// Returns true if neither the service nor the replica sets the limit.
    pub(crate) fn is_measured(&self) -> bool {
        matches!(self, Self::Measured(_))
    }

    /// Returns the measured limit, without the current trial; `None` if the limit is configured, reported or unknown.
    pub(crate) fn measured(&self) -> Option<u32> {
        match self {
            Self::Configured(_) | Self::Reported(_) => None,
            Self::Measured(measured) => measured.kept(),
        }
    }

    /// Returns the number of requests that the replica is expected to take, which the autoscaler gets.
    pub(crate) fn expected(&self) -> u32 {
        match self {
            Self::Configured(number) | Self::Reported(number) => *number,
            Self::Measured(measured) => measured.expected(),
        }
    }

    /// Returns the time at which the limit grows without an answer, if requests wait; `None` for most limits.
    pub(crate) fn grows_at(&self) -> Option<Instant> {
        match self {
            Self::Configured(_) | Self::Reported(_) => None,
            Self::Measured(measured) => measured.grows_at(),
        }
    }

    /// Enlarges the limit because the replica answered nothing until [`Self::grows_at`].
    pub(crate) fn grow(&mut self, now: Instant) {
        if let Self::Measured(measured) = self {
            measured.grow(now);
        }
    }

    /// Returns the number of concurrent requests, at least one.
    pub(crate) fn limit(&self) -> u32 {
        match self {
            Self::Configured(number) | Self::Reported(number) => *number,
            Self::Measured(measured) => measured.limit(),
        }
    }

    /// Applies the capacity that the replica reports, unless the service configures a limit.
    pub(crate) fn report(&mut self, capacity: u32) {
        match self {
            Self::Configured(_) => {}
            Self::Reported(_) | Self::Measured(_) => {
                *self = Self::Reported(capacity.clamp(1, MAX_REPORTED));
            }
        }
    }

    /// Records that a request was sent.
    pub(crate) fn sent(&mut self, usage: Usage, now: Instant) {
        match self {
            Self::Configured(_) | Self::Reported(_) => {}
            Self::Measured(measured) => measured.sent(usage, now),
        }
    }

    /// Records that a request was answered without an error, `took` after it was sent.
    pub(crate) fn answered(&mut self, usage: Usage, took: Duration, now: Instant) {
        match self {
            Self::Configured(_) | Self::Reported(_) => {}
            Self::Measured(measured) => measured.answered(usage, took, now),
        }
    }

    /// Records that a request ended, in whatever way.
    pub(crate) fn ended(&mut self, now: Instant) {
        match self {
            Self::Configured(_) | Self::Reported(_) => {}
            Self::Measured(measured) => measured.ended(now),
        }
    }

    /// Records that the replica refused a request because it is full.
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
    fn a_configured_limit_overrides_the_reported_capacity() {
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
