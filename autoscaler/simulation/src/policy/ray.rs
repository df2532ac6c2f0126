//! Ray Serve's autoscaler (ray-project/ray, `python/ray/serve/autoscaling_policy.py`).

use std::time::Duration;

use super::window::{Window, allowed, count, is_due};
use super::{Observed, Policy};

/// Ray Serve's policy by ongoing requests.
#[derive(Clone, Debug)]
pub struct RayPolicy {
    /// The `target_ongoing_requests` per replica.
    target: f64,
    ongoing: Window,
    /// The mean that was last pushed to the controller.
    pushed: f64,
    pushed_at: Option<Duration>,
    /// Time since when all decisions were to scale up (`down_since`: down); None if the last one was not.
    up_since: Option<Duration>,
    down_since: Option<Duration>,
    desired: u32,
}

const LOOK_BACK: Duration = Duration::from_secs(30);
const PUSH: Duration = Duration::from_secs(10);
const UP_DELAY: Duration = Duration::from_secs(30);
const DOWN_DELAY: Duration = Duration::from_secs(600);

impl RayPolicy {
    /// Creates the policy with Ray Serve's defaults and this target of ongoing requests per replica.
    #[must_use]
    pub fn new(target: f64) -> Self {
        Self {
            target,
            ongoing: Window::new(LOOK_BACK),
            pushed: 0.0,
            pushed_at: None,
            up_since: None,
            down_since: None,
            desired: 0,
        }
    }

    /// Runs one iteration of Ray Serve's control loop.
    fn turn(&mut self, now: Duration, total: f64, running: u32) -> u32 {
        if self.desired == 0 {
            self.up_since = None;
            self.desired = u32::from(total > 0.0);
            return self.desired;
        }
        if running == 0 {
            return self.desired;
        }
        let wanted = count(total / self.target);
        if wanted > self.desired {
            self.down_since = None;
            let since = *self.up_since.get_or_insert(now);
            if now >= since + UP_DELAY {
                self.up_since = None;
                self.desired = wanted;
            }
        } else if wanted < self.desired {
            self.up_since = None;
            let since = *self.down_since.get_or_insert(now);
            if now >= since + DOWN_DELAY {
                self.down_since = None;
                // The last replica has its own delay.
                self.desired = if self.desired > 1 { wanted.max(1) } else { 0 };
            }
        } else {
            (self.up_since, self.down_since) = (None, None);
        }
        self.desired
    }
}

impl Policy for RayPolicy {
    fn decide(&mut self, observed: &Observed) -> u32 {
        let sample = &observed.sample;
        self.desired = allowed(self.desired, sample.replicas.desired);
        let activity = &sample.load.activity;
        self.ongoing.add(sample.at, observed.concurrency);
        if self.desired == 0 {
            // Requests that wait for a first replica are reported at once.
            self.pushed = f64::from(activity.queued);
        } else if is_due(&mut self.pushed_at, sample.at, PUSH) {
            self.pushed = self.ongoing.mean();
        }
        self.turn(sample.at, self.pushed, sample.replicas.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flow of `_run_upscale_downscale_flow` in `test_autoscaling_policy.py`.
    #[test]
    fn ray_waits_as_in_its_own_tests() {
        let at = Duration::from_secs;
        let mut ray = RayPolicy::new(1.0);
        ray.desired = 1;
        assert_eq!(ray.turn(at(0), 5.0, 1), 1);
        assert_eq!(ray.turn(at(29), 5.0, 1), 1);
        assert_eq!(ray.turn(at(30), 5.0, 1), 5);
        assert_eq!(ray.turn(at(31), 0.0, 5), 5);
        assert_eq!(ray.turn(at(630), 0.0, 5), 5);
        // The policy first scales to one, and to zero after the same delay again.
        assert_eq!(ray.turn(at(631), 0.0, 5), 1);
        assert_eq!(ray.turn(at(632), 0.0, 1), 1);
        assert_eq!(ray.turn(at(1231), 0.0, 1), 1);
        assert_eq!(ray.turn(at(1232), 0.0, 1), 0);
        // From zero the policy scales at once. Without a running replica there is no measurement.
        assert_eq!(ray.turn(at(1233), 70.0, 0), 1);
        assert_eq!(ray.turn(at(1300), 70.0, 0), 1);
        // A decision in the other direction restarts the delay.
        assert_eq!(ray.turn(at(1310), 5.0, 1), 1);
        assert_eq!(ray.turn(at(1330), 0.0, 1), 1);
        assert_eq!(ray.turn(at(1340), 5.0, 1), 1);
        assert_eq!(ray.turn(at(1369), 5.0, 1), 1);
        assert_eq!(ray.turn(at(1370), 5.0, 1), 5);
    }
}
