//! A fixed number of replicas, to compare with: given, or what the busiest ten seconds need.

use std::collections::BTreeMap;

use super::{Observed, Policy};
use crate::Workload;

/// Always as many replicas, whatever comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedPolicy {
    /// How many they are.
    pub replicas: u32,
}

/// Seconds over which a peak is measured: a shorter one a queue takes up.
const PEAK_SECONDS: u64 = 10;

impl FixedPolicy {
    /// As many as do what comes in the busiest ten seconds: what someone who knows the peak would reserve.
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
