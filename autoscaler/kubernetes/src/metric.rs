//! The metrics that are told, by name. Pure.

use std::time::Duration;

use weir_cluster::{Activity, nearest};

use crate::window::WindowedLoad;

/// A metric of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Mean time that requests waited for a replica, in microseconds. Triton's counter of this name only grows; here it
    /// is what its users make of it: the waiting time of the last half minute by the requests that waited.
    QueueDuration,
    /// Requests that wait for a replica now.
    PendingRequests,
    /// The time within which 99 of 100 requests got a replica, in seconds.
    QueueDelay,
    /// Requests that come each second.
    Requests,
}

/// How the value of a service is divided among its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Each pod has the value of the service, as one queue feeds them all.
    Same,
    /// The pods have equal parts of it.
    Equal,
}

impl Metric {
    /// All metrics that are told.
    pub(crate) const ALL: [Self; 4] = [Self::QueueDuration, Self::PendingRequests, Self::QueueDelay, Self::Requests];

    /// Its name, as autoscalers write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::QueueDuration => "nv_inference_queue_duration_us",
            Self::PendingRequests => "nv_inference_pending_request_count",
            Self::QueueDelay => "weir_queue_delay_seconds",
            Self::Requests => "weir_requests_per_second",
        }
    }

    /// The metric of this name.
    ///
    /// # Errors
    /// A sentence that names the nearest one, or all.
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|metric| metric.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let nearest = nearest(names, name).map(|near| format!(": did you mean {near}?"));
            let all = names.join(", ");
            let hint = nearest.unwrap_or_else(|| format!(": Weir has {all}"));
            format!("there is no metric {name:?}{hint}")
        })
    }

    /// How the value of a service is divided among its pods.
    pub(crate) fn share(self) -> Share {
        match self {
            Self::QueueDuration | Self::QueueDelay => Share::Same,
            Self::PendingRequests | Self::Requests => Share::Equal,
        }
    }

    /// The value of a service with this load.
    pub(crate) fn value(self, load: &WindowedLoad) -> f64 {
        match self {
            Self::QueueDuration => mean_wait_us(&load.activity),
            Self::PendingRequests => load.activity.queued.into(),
            Self::QueueDelay => delay(&load.activity).as_secs_f64(),
            Self::Requests => load.rate,
        }
    }
}

/// Mean wait of the requests that got a replica and of those that wait still. Of the latter the longest wait is known;
/// as they came one after the other, they have waited half of it on average. Without them a queue from which nothing
/// is taken would count for nothing.
fn mean_wait_us(activity: &Activity) -> f64 {
    let waiting = f64::from(activity.queued);
    let waited = activity.queue_delay.count() as f64;
    let sum = activity.queue_delay.sum_us() as f64 + waiting * activity.oldest_us as f64 / 2.0;
    let all = waiting + waited;
    if all > 0.0 { sum / all } else { 0.0 }
}

/// The 99th percentile, or the wait of the request that has waited longest if that is more.
fn delay(activity: &Activity) -> Duration {
    let percentile = activity.queue_delay.quantile(0.99).unwrap_or_default();
    percentile.max(Duration::from_micros(activity.oldest_us))
}

#[cfg(test)]
mod tests {
    use weir_cluster::Histogram;

    use super::*;

    fn load(waits_ms: &[u64], queued: u32, oldest_ms: u64) -> WindowedLoad {
        let mut queue_delay = Histogram::default();
        let waits = waits_ms.iter().copied().map(Duration::from_millis);
        waits.for_each(|wait| queue_delay.record(wait));
        let activity = Activity { queue_delay, queued, oldest_us: oldest_ms * 1000, ..Activity::default() };
        WindowedLoad { activity, rate: 2.5 }
    }

    #[test]
    fn the_wait_is_the_mean_of_those_that_waited_and_wait() {
        let mean = |load: &WindowedLoad| Metric::QueueDuration.value(load);
        assert_eq!(mean(&load(&[10, 30], 0, 0)), 20_000.0);
        assert_eq!(mean(&load(&[], 0, 0)), 0.0);
        assert_eq!(mean(&load(&[], 7, 4000)), 2_000_000.0);
        assert_eq!(mean(&load(&[10, 30], 2, 40)), 20_000.0);
    }

    #[test]
    fn the_delay_is_at_least_the_longest_wait() {
        let delay = |load: &WindowedLoad| Metric::QueueDelay.value(load);
        assert_eq!(delay(&load(&[10, 30], 1, 5000)), 5.0);
        assert!(delay(&load(&[10, 30], 0, 0)) < 0.04);
    }

    #[test]
    fn names_are_found_again_and_others_refused() {
        for metric in Metric::ALL {
            assert_eq!(Metric::parse(metric.name()), Ok(metric));
        }
        let refused = Metric::parse("nv_inference_queue_duration_ms").unwrap_err();
        assert!(refused.contains("did you mean nv_inference_queue_duration_us?"), "{refused}");
    }
}
