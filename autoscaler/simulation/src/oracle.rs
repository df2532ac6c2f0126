//! What it would cost to know the future: the least GPU time for requests that come at known times.

mod exact;
mod levels;

use std::time::Duration;

pub use exact::Frontier;
pub use levels::{Demand, level_cost};

use crate::Workload;

/// The part of a workload that its cost depends on: requests by bins as long as one may wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    /// Requests in each bin.
    pub counts: Vec<u32>,
    /// Seconds of a bin.
    pub length: f64,
    /// Requests that a replica can do in a bin.
    pub capacity: f64,
    /// Seconds that a start takes.
    pub cold_start: f64,
}

impl Bins {
    /// The bins of a workload whose replicas take this long to start.
    #[must_use]
    pub fn new(workload: &Workload, cold_start: Duration) -> Self {
        let length = workload.target.as_secs_f64().max(1e-3);
        let count = (workload.until.as_secs_f64() / length).ceil() as usize;
        let mut counts = vec![0; count.max(1)];
        for arrival in &workload.arrivals {
            let index = (arrival.as_secs_f64() / length) as usize;
            if let Some(bin) = counts.get_mut(index) {
                *bin += 1;
            }
        }
        Self {
            counts,
            length,
            capacity: workload.service.capacity() * length,
            cold_start: cold_start.as_secs_f64(),
        }
    }

    /// Replicas that the largest bin needs.
    #[must_use]
    pub fn peak(&self) -> u32 {
        let most = self.counts.iter().copied().max().unwrap_or_default();
        self.needed(most)
    }

    /// Replicas that do so many requests in a bin.
    fn needed(&self, count: u32) -> u32 {
        (f64::from(count) / self.capacity - 1e-9).ceil().max(0.0) as u32
    }
}
