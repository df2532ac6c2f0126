//! llm-d's Workload Variant Autoscaler with its second saturation analyzer
//! (llm-d-incubation/workload-variant-autoscaler, `internal/engines`).

use std::time::Duration;

use super::hpa::Hpa;
use super::window::{Window, allowed, count, is_due};
use super::{Observed, Policy};

/// The Workload Variant Autoscaler: decides once a minute from the used and queued tokens, and an HPA acts on it. In
/// the simulation, requests stand for tokens.
#[derive(Clone, Debug)]
pub struct WvaPolicy {
    /// Usable concurrency of a replica: 0.8 of its maximum.
    capacity: f64,
    used: Window,
    optimized: Option<Duration>,
    wanted: u32,
    hpa: Hpa,
    active: Duration,
    desired: u32,
}

const LOOP: Duration = Duration::from_secs(60);
const RETENTION: Duration = Duration::from_secs(600);
/// Share of a replica's memory that may be in use.
const USABLE: f64 = 0.8;
const UP: f64 = 0.85;
const DOWN: f64 = 0.70;

impl WvaPolicy {
    /// Creates the policy with its defaults, for replicas with this concurrency and this stabilization window up; the
    /// guide for production sets 240 s.
    #[must_use]
    pub fn new(most: u32, up: Duration) -> Self {
        let down = Duration::from_secs(240);
        Self {
            capacity: f64::from(most) * USABLE,
            used: Window::new(LOOP),
            optimized: None,
            wanted: 0,
            hpa: Hpa::stabilized(0, up, down),
            active: Duration::ZERO,
            desired: 0,
        }
    }
}

impl Policy for WvaPolicy {
    fn decide(&mut self, observed: &Observed) -> u32 {
        let sample = &observed.sample;
        self.desired = allowed(self.desired, sample.replicas.desired);
        let activity = &sample.load.activity;
        let now = sample.at;
        self.used.add(now, f64::from(activity.queued + activity.in_flight));
        if activity.arrivals > 0 || sample.load.is_busy() {
            self.active = now;
        }
        if self.desired == 0 && sample.load.is_busy() {
            (self.desired, self.wanted) = (1, 1);
        }
        if is_due(&mut self.optimized, now, LOOP) {
            let replicas = (sample.replicas.ready, self.desired);
            self.wanted = optimize(self.used.most(), self.capacity, replicas);
        }
        let is_idle = now.saturating_sub(self.active) >= RETENTION;
        if is_idle {
            self.desired = 0;
        } else if self.desired > 0 && self.hpa.is_due(now) {
            let set = self.hpa.set(now, self.desired, self.wanted);
            self.desired = set.max(1);
        }
        self.desired
    }
}

/// Returns the number for this demand. Starting replicas count when scaling up, but not when scaling down.
fn optimize(demand: f64, capacity: f64, (ready, desired): (u32, u32)) -> u32 {
    let required = demand / UP - f64::from(desired) * capacity;
    if required > 0.0 {
        return desired + count(required / capacity);
    }
    let spare = f64::from(ready) * capacity - demand / DOWN;
    let is_settled = ready >= desired;
    if spare > 0.0 && is_settled {
        let fewer = (spare / capacity).floor() as u32;
        return desired.saturating_sub(fewer).max(1);
    }
    desired
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wva_scales_up_above_085_and_down_below_070() {
        // A replica holds ten requests.
        assert_eq!(optimize(8.5, 10.0, (1, 1)), 1);
        assert_eq!(optimize(8.6, 10.0, (1, 1)), 2);
        assert_eq!(optimize(34.0, 10.0, (1, 1)), 4);
        assert_eq!(optimize(34.0, 10.0, (1, 4)), 4);
        assert_eq!(optimize(7.0, 10.0, (2, 2)), 1);
        assert_eq!(optimize(7.1, 10.0, (2, 2)), 2);
        assert_eq!(optimize(0.0, 10.0, (3, 3)), 1);
    }
}
