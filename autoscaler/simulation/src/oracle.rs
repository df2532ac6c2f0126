//! Lower bound of the cost: the least GPU time if the arrival times of all requests are known.

mod exact;
#[cfg(test)]
mod levels;

use std::time::Duration;

pub use exact::Frontier;

use crate::Workload;

/// The part of a workload that determines its cost: the number of requests per bin. A bin is as long as a request may
/// wait, or half as long as a full batch takes if that is longer, because a request that arrives during a batch waits
/// that long on average.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    /// Number of requests in each bin.
    pub counts: Vec<u32>,
    /// Length of a bin in seconds.
    pub length: f64,
    /// Requests that a replica can serve in a bin.
    pub capacity: f64,
    /// Seconds that a start takes.
    pub cold_start: f64,
}

impl Bins {
    /// Returns the bins of a workload whose replicas take this long to start.
    #[must_use]
    pub fn new(workload: &Workload, cold_start: Duration) -> Self {
        let at_once = f64::from(workload.service.most()) / workload.service.capacity();
        let length = workload.target.as_secs_f64().max(at_once / 2.0).max(1e-3);
        let count = (workload.until.as_secs_f64() / length).ceil() as usize;
        let mut counts = vec![0; count.max(1)];
        for arrival in &workload.arrivals {
            let index = (arrival.as_secs_f64() / length) as usize;
            if let Some(bin) = counts.get_mut(index) {
                *bin += 1;
            }
        }
        Self { counts, length, capacity: workload.service.capacity() * length, cold_start: cold_start.as_secs_f64() }
    }

    /// Returns the replicas that the largest bin needs.
    #[must_use]
    pub fn peak(&self) -> u32 {
        let most = self.counts.iter().copied().max().unwrap_or_default();
        self.needed(most)
    }

    /// Returns the replicas that can serve this many requests in a bin.
    fn needed(&self, count: u32) -> u32 {
        (f64::from(count) / self.capacity - 1e-9).ceil().max(0.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Service;

    #[test]
    fn a_target_far_below_the_batch_time_does_not_need_a_replica_per_request() {
        let (fixed, each) = (Duration::from_millis(40), Duration::from_millis(10));
        let workload = Workload {
            arrivals: vec![Duration::ZERO, Duration::from_secs(1)],
            until: Duration::from_secs(60),
            service: Service::Batched { fixed, each, most: 8 },
            target: Duration::from_millis(1),
        };
        assert_eq!(Bins::new(&workload, Duration::ZERO).peak(), 1);
        let long = Workload { service: Service::Each { time: Duration::from_secs(600), most: 4 }, ..workload };
        assert_eq!(Bins::new(&long, Duration::ZERO).peak(), 1);
    }
}
