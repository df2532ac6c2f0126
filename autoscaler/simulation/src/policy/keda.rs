//! KEDA with its HTTP add-on (kedacore/http-add-on): the add-on scales from and to zero, an HPA does the rest.

use std::time::Duration;

use super::hpa::{Hpa, by_total};
use super::window::allowed;
use super::{Observed, Policy};

/// KEDA's HTTP add-on by concurrency.
#[derive(Clone, Debug)]
pub struct KedaPolicy {
    target: f64,
    hpa: Hpa,
    active: Duration,
    desired: u32,
}

/// Default of KEDA's `cooldownPeriod`: idle time before the last replica ends.
const COOLDOWN: Duration = Duration::from_secs(300);

impl KedaPolicy {
    /// Creates the policy with KEDA's defaults and this target of requests in flight per replica.
    #[must_use]
    pub fn new(target: f64) -> Self {
        Self { target, hpa: Hpa::new(1), active: Duration::ZERO, desired: 0 }
    }
}

impl Policy for KedaPolicy {
    fn decide(&mut self, observed: &Observed) -> u32 {
        let sample = &observed.sample;
        self.desired = allowed(self.desired, sample.replicas.desired);
        let activity = &sample.load.activity;
        let pending = f64::from(activity.queued) + f64::from(activity.in_flight);
        if pending > 0.0 || activity.arrivals > 0 {
            self.active = sample.at;
        }
        let is_active = sample.at.saturating_sub(self.active) < COOLDOWN;
        if self.desired == 0 {
            self.desired = u32::from(pending > 0.0);
        } else if !is_active {
            self.desired = 0;
        } else if self.hpa.is_due(sample.at) {
            let calculated = by_total(pending, self.target, self.desired);
            self.desired = self.hpa.set(sample.at, self.desired, calculated);
        }
        self.desired
    }
}
