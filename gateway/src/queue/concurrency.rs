//! Number of requests that a replica may have at once.

use std::time::Duration;

/// Limit of a replica's concurrent requests: the service's `containerConcurrency`, else what the replica reports, else
/// what its latency shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConcurrencyLimit {
    /// The service's `containerConcurrency`, in requests.
    Configured(u32),
    /// The replica's header `weir-capacity`.
    Reported(u32),
    /// Measured from the latency of responses.
    Measured(MeasuredLimit),
}

/// A limit that follows latency: it grows while more requests at once do not slow each other down, and
/// shrinks as soon as they queue inside the replica.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeasuredLimit {
    limit: f64,
    /// The time of a request that finds the replica free, in microseconds; zero before the first.
    base_us: f64,
}

/// Before the first answer: enough for a small burst, few enough to divide fairly among replicas.
const FIRST: f64 = 4.0;

/// No server known to us serves more requests at once well.
const MOST: f64 = 1024.0;

/// A replica that says more than this means "as many as you like".
const MOST_REPORTED: u32 = 65_536;

/// Latency may double before the limit shrinks: batching servers answer a full batch later than a
/// single request, and gain by it.
const TOLERANCE: f64 = 2.0;

/// Share by which a new limit moves towards what one answer suggests: some ten answers decide.
const SMOOTHING: f64 = 0.2;

/// Share by which the base follows slower answers of a replica with little to do, so that one that became
/// slower for good is measured anew within some thousand answers. Those of a busy one say nothing: its
/// requests wait for each other.
const AGEING: f64 = 0.001;

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
            Self::Measured(measured) => measured.limit as u32,
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

    /// Learns from an answer: how long it took, and how many requests the replica had, this one included.
    pub(crate) fn observe(&mut self, took: Duration, in_flight: u32) {
        match self {
            Self::Configured(_) | Self::Reported(_) => {}
            Self::Measured(measured) => measured.observe(took, in_flight),
        }
    }
}

impl MeasuredLimit {
    fn new() -> Self {
        Self {
            limit: FIRST,
            base_us: 0.0,
        }
    }

    fn observe(&mut self, took: Duration, in_flight: u32) {
        let us = (took.as_micros() as f64).max(1.0);
        let is_used = f64::from(in_flight) * 2.0 >= self.limit;
        let is_busy = is_used && f64::from(in_flight) > FIRST;
        if self.base_us == 0.0 || us < self.base_us {
            self.base_us = us;
        } else if !is_busy {
            self.base_us += (us - self.base_us) * AGEING;
        }
        // With few requests at once, that none slows another says nothing about many.
        let gradient = (TOLERANCE * self.base_us / us).clamp(0.5, 1.0);
        if gradient < 1.0 || is_used {
            let suggested = self.limit * gradient + self.limit.sqrt();
            let next = self.limit + (suggested - self.limit) * SMOOTHING;
            self.limit = next.clamp(1.0, MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A replica that works on `width` requests at once and lets the others wait.
    fn settle(width: u32, service: Duration) -> u32 {
        let mut credits = ConcurrencyLimit::new(None);
        for _ in 0..2000 {
            let in_flight = credits.limit();
            let rounds = in_flight.div_ceil(width);
            credits.observe(service * rounds, in_flight);
        }
        credits.limit()
    }

    #[test]
    fn the_measured_limit_finds_what_a_replica_works_on_at_once() {
        for width in [4, 16, 64] {
            let limit = settle(width, Duration::from_millis(10));
            assert!(limit >= width, "{limit} starves {width}");
            assert!(limit <= 4 * width, "{limit} floods {width}");
        }
    }

    #[test]
    fn what_the_service_says_beats_what_the_replica_says() {
        let mut credits = ConcurrencyLimit::new(Some(3));
        credits.report(8);
        assert_eq!(credits.limit(), 3);
        let mut credits = ConcurrencyLimit::new(None);
        credits.report(8);
        credits.observe(Duration::from_secs(9), 8);
        assert_eq!(credits.limit(), 8);
    }

    proptest! {
        #[test]
        fn there_is_always_a_credit(
            samples in proptest::collection::vec((0_u64..100_000_000, 1_u32..2000), 0..300),
        ) {
            let mut credits = ConcurrencyLimit::new(None);
            for (us, in_flight) in samples {
                credits.observe(Duration::from_micros(us), in_flight);
                prop_assert!((1..=1024).contains(&credits.limit()));
            }
        }
    }
}
