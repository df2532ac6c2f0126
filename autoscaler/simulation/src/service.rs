//! Service times of a simulated replica.

use std::time::Duration;

/// Service times of a replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Each request takes the same time, with up to `most` in parallel.
    Each {
        /// Time of a request.
        time: Duration,
        /// Concurrent requests of a replica.
        most: u32,
    },
    /// A free replica takes all queued requests, up to `most`, as one batch.
    Batched {
        /// Fixed part of a batch's time.
        fixed: Duration,
        /// Time that each request adds to its batch.
        each: Duration,
        /// Most requests in a batch.
        most: u32,
    },
    /// A replica works on up to `most` requests at once, which join and leave one by one, and each slows the others down:
    /// continuous batching.
    Continuous {
        /// Time of a request of mean length, without the part for the requests that share the steps.
        fixed: Duration,
        /// Time that each of the concurrent requests, the request itself included, adds to it.
        each: Duration,
        /// Concurrent requests of a replica.
        most: u32,
    },
}

impl Service {
    /// Returns the concurrent requests of a replica, or the requests of a full batch.
    #[must_use]
    pub fn most(&self) -> u32 {
        match *self {
            Self::Each { most, .. } | Self::Batched { most, .. } | Self::Continuous { most, .. } => most.max(1),
        }
    }

    /// Returns the time that `count` requests of mean length take together.
    #[must_use]
    pub fn time(&self, count: u32) -> Duration {
        match *self {
            Self::Each { time, .. } => time,
            Self::Batched { fixed, each, .. } | Self::Continuous { fixed, each, .. } => fixed + each * count,
        }
    }

    /// Returns the requests per second of a replica that is always full.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        let most = self.most();
        // A service that takes no time would have infinite capacity.
        f64::from(most) / self.time(most).as_secs_f64().max(1e-6)
    }

    /// Returns the highest utilization target with which a policy by concurrency cannot scale itself into overload:
    /// `time(1) / time(most)`. At light load the policy counts replicas by requests that take `time(1)`; these replicas
    /// must suffice even when they are full and each request takes `time(most)`.
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
    fn a_batch_gain_lowers_the_critical_utilization() {
        let service = Service::Batched { fixed: Duration::from_millis(400), each: Duration::from_millis(100), most: 8 };
        assert!((service.capacity() - 20.0 / 3.0).abs() < 1e-9);
        assert!((service.critical_utilization() - 5.0 / 12.0).abs() < 1e-9);
        let service = Service::Each { time: Duration::from_millis(100), most: 4 };
        assert_eq!((service.capacity(), service.critical_utilization()), (40.0, 1.0));
    }
}
