//! A fixed number of replicas for comparison: a given one, or enough for the busiest ten seconds.

use std::collections::BTreeMap;

use super::{Observed, Policy};
use crate::Workload;

/// Policy with a constant number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedPolicy {
    /// The number of replicas.
    pub replicas: u32,
}

/// Seconds over which the peak is measured; a queue absorbs shorter peaks.
const PEAK_SECONDS: u64 = 10;

impl FixedPolicy {
    /// Returns the replicas that can serve the busiest ten seconds, which an operator who knows the peak would reserve.
    #[must_use]
    pub fn at_peak(workload: &Workload) -> Self {
        let mut counts = BTreeMap::<u64, u32>::new();
        for arrival in &workload.arrivals {
            *counts.entry(arrival.as_secs() / PEAK_SECONDS).or_default() += 1;
        }
        let most = counts.into_values().max().unwrap_or_default();
        let rate = f64::from(most) / PEAK_SECONDS as f64;
        Self { replicas: (rate / workload.service.capacity()).ceil() as u32 }
    }
}

impl Policy for FixedPolicy {
    fn decide(&mut self, _observed: &Observed) -> u32 {
        self.replicas
    }
}
