//! Decides when to notify KEDA about a service, and when to repeat it. This module is pure.

use std::time::Duration;

use tokio::time::Instant;

use crate::window::WindowedLoad;

/// First pause before KEDA is notified again that requests wait for a first pod. KEDA does not retry a failed
/// activation, for instance when the API server refused the number or KEDA's cache still shows the pod that has gone,
/// and it polls every 30 s only.
const AGAIN: Duration = Duration::from_secs(2);

/// Longest pause. With it, a service that takes minutes to start causes no more writes than KEDA's own polling.
const LONGEST_AGAIN: Duration = Duration::from_secs(30);

/// The need of a service for pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// The service may have no pods.
    Nothing,
    /// The service needs at least one pod.
    Pods,
    /// Requests are queued, and no pod takes them.
    FirstPod,
}

/// The last notification about a service.
#[derive(Debug, Default)]
pub(super) struct Pushes {
    last: Option<Push>,
}

#[derive(Clone, Copy, Debug)]
struct Push {
    need: Need,
    at: Instant,
    /// Pause after which the notification is repeated, if at all.
    pause: Duration,
}

impl Pushes {
    /// Returns the notification to send now, if any: true if the service is needed.
    pub(super) fn next(&mut self, load: &WindowedLoad, now: Instant) -> Option<bool> {
        let need = Need::of(load);
        let pause = match self.last.filter(|last| last.need == need) {
            None => AGAIN,
            Some(last) if last.is_due(now) => LONGEST_AGAIN.min(last.pause * 2),
            Some(_) => return None,
        };
        let at = now;
        self.last = Some(Push { need, at, pause });
        Some(need != Need::Nothing)
    }
}

impl Push {
    fn is_due(&self, now: Instant) -> bool {
        self.need == Need::FirstPod && now.saturating_duration_since(self.at) >= self.pause
    }
}

impl Need {
    fn of(load: &WindowedLoad) -> Self {
        if load.activity.queued > 0 && load.activity.credits == 0 {
            Self::FirstPod
        } else if load.is_active() {
            Self::Pods
        } else {
            Self::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_cluster::Activity;

    use super::*;

    fn load(arrivals: u64, queued: u32, credits: u32) -> WindowedLoad {
        let activity = Activity { arrivals, queued, credits, ..Activity::default() };
        WindowedLoad { activity, rate: 0.0 }
    }

    #[test]
    fn an_unchanged_need_is_notified_once() {
        let (mut pushes, now) = (Pushes::default(), crate::clock::now());
        let later = now + Duration::from_secs(3600);
        for (load, is_needed) in [(load(0, 0, 0), false), (load(1, 0, 4), true), (load(0, 0, 4), false)] {
            assert_eq!(pushes.next(&load, now), Some(is_needed));
            assert_eq!(pushes.next(&load, later), None);
        }
    }

    #[test]
    fn a_queue_at_running_pods_is_not_notified_again() {
        let (mut pushes, now) = (Pushes::default(), crate::clock::now());
        assert_eq!(pushes.next(&load(1, 0, 4), now), Some(true));
        assert_eq!(pushes.next(&load(9, 5, 4), now + AGAIN), None);
    }

    #[test]
    fn a_request_at_zero_is_notified_although_the_service_was_just_busy() {
        let (mut pushes, now) = (Pushes::default(), crate::clock::now());
        assert_eq!(pushes.next(&load(1, 0, 4), now), Some(true));
        assert_eq!(pushes.next(&load(1, 0, 0), now), None);
        assert_eq!(pushes.next(&load(2, 1, 0), now), Some(true));
    }

    #[test]
    fn the_notification_repeats_less_and_less_often_until_a_pod_takes_requests() {
        let (mut pushes, began) = (Pushes::default(), crate::clock::now());
        let mut notified = Vec::new();
        for second in 0..100 {
            let now = began + Duration::from_secs(second);
            if pushes.next(&load(1, 1, 0), now) == Some(true) {
                notified.push(second);
            }
        }
        assert_eq!(notified, [0, 2, 6, 14, 30, 60, 90]);
        let end = began + Duration::from_secs(100);
        assert_eq!(pushes.next(&load(1, 1, 4), end), Some(true));
        assert_eq!(pushes.next(&load(1, 1, 4), end + LONGEST_AGAIN), None);
    }
}
