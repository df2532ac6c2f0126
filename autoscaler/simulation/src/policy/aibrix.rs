//! AIBrix's APA (vllm-project/aibrix, `pkg/controller/podautoscaler/algorithm/apa.go`).

use std::time::Duration;

use super::window::{Window, allowed, is_due};
use super::{Observed, Policy};

/// AIBrix's APA by concurrency: a ratio with tolerances and rate limits.
#[derive(Clone, Debug)]
pub struct AibrixPolicy {
    target: f64,
    resynced: Option<Duration>,
    /// Numbers calculated within the cool-down period.
    calculated: Window,
    desired: u32,
}

const RESYNC: Duration = Duration::from_secs(10);
const COOL_DOWN: Duration = Duration::from_secs(300);
const TOLERANCE: f64 = 0.1;

impl AibrixPolicy {
    /// Creates the policy with AIBrix's defaults and this target of requests in flight per replica.
    #[must_use]
    pub fn new(target: f64) -> Self {
        Self { target, resynced: None, calculated: Window::new(COOL_DOWN), desired: 1 }
    }
}

impl Policy for AibrixPolicy {
    fn decide(&mut self, observed: &Observed) -> u32 {
        let sample = &observed.sample;
        self.desired = allowed(self.desired, sample.replicas.desired);
        let ready = sample.replicas.ready;
        if is_due(&mut self.resynced, sample.at, RESYNC) && ready > 0 {
            let activity = &sample.load.activity;
            // The present values of the ready pods count, not a mean over time.
            let used = f64::from(activity.queued + activity.in_flight) / f64::from(ready);
            let target = target_replicas(f64::from(self.desired), used / self.target, (2.0, 2.0));
            self.calculated.add(sample.at, f64::from(target));
            let settled = self.calculated.most() as u32;
            self.desired = if target < self.desired { settled.min(self.desired) } else { target };
            self.desired = self.desired.max(1);
        }
        self.desired
    }
}

/// Returns the number of replicas for a use of `ratio` times the target; starting replicas count as current.
fn target_replicas(current: f64, ratio: f64, (up, down): (f64, f64)) -> u32 {
    let wanted = (current * ratio - 1e-9).ceil();
    let replicas = if ratio > 1.0 + TOLERANCE + 1e-9 {
        wanted.min((current * up).ceil())
    } else if ratio < 1.0 - TOLERANCE - 1e-9 {
        wanted.max((current / down).floor())
    } else {
        current
    };
    replicas as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TestAPAAlgorithm_ComputeTargetReplicas` of `apa_test.go`: current, use, rates, wanted; the target is 30.
    #[test]
    fn aibrix_scales_as_in_its_own_tests() {
        let rows = [
            (2.0, 45.0, (2.0, 2.0), 3),
            (2.0, 35.0, (2.0, 2.0), 3),
            (2.0, 90.0, (2.0, 2.0), 4),
            (2.0, 90.0, (2.5, 2.0), 5),
            (6.0, 20.0, (2.0, 2.0), 4),
            (6.0, 18.0, (2.0, 2.0), 4),
            (6.0, 10.0, (2.0, 2.0), 3),
            (6.0, 5.0, (2.0, 2.5), 2),
            (2.0, 33.0, (2.0, 2.0), 2),
            (2.0, 27.0, (2.0, 2.0), 2),
        ];
        for (current, used, rates, wanted) in rows {
            let target = target_replicas(current, used / 30.0, rates);
            assert_eq!(target, wanted, "{current} {used} {rates:?}");
        }
    }
}
