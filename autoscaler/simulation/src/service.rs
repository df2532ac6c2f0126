//! What a simulated replica does in which time.

use std::time::Duration;

/// Service times of a replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Each request takes this long, however many there are, up to `most` at once.
    Each {
        /// Time of a request.
        time: Duration,
        /// Requests that it takes at once.
        most: u32,
    },
    /// When free, a replica takes all that wait, up to `most`, as one batch.
    Batched {
        /// The time of any batch.
        fixed: Duration,
        /// The time that each request of it adds.
        each: Duration,
        /// Requests in a batch.
        most: u32,
    },
}

impl Service {
    /// Requests that a replica takes at once.
    #[must_use]
    pub fn most(&self) -> u32 {
        match *self {
            Self::Each { most, .. } | Self::Batched { most, .. } => most.max(1),
        }
    }

    /// The time that so many take together.
    #[must_use]
    pub fn time(&self, count: u32) -> Duration {
        match *self {
            Self::Each { time, .. } => time,
            Self::Batched { fixed, each, .. } => fixed + each * count,
        }
    }

    /// Requests per second of a replica that always has as many as it takes.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        let most = self.most();
        // A service that takes no time at all would have a capacity without end.
        f64::from(most) / self.time(most).as_secs_f64().max(1e-6)
    }

    /// The utilization target below which a scaler by concurrency cannot scale itself into overload:
    /// a lightly loaded replica takes `time(1)` for what takes `time(most)` at a full one.
    #[must_use]
    pub fn critical_utilization(&self) -> f64 {
        let full = self.time(self.most()).as_secs_f64().max(1e-6);
        self.time(1).as_secs_f64().max(1e-6) / full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_is_worth_having_lowers_the_critical_utilization() {
        let service = Service::Batched { fixed: Duration::from_millis(400), each: Duration::from_millis(100), most: 8 };
        assert!((service.capacity() - 20.0 / 3.0).abs() < 1e-9);
        assert!((service.critical_utilization() - 5.0 / 12.0).abs() < 1e-9);
        let service = Service::Each { time: Duration::from_millis(100), most: 4 };
        assert_eq!((service.capacity(), service.critical_utilization()), (40.0, 1.0));
    }
}
