//! Metrics that are provided, by name. This module is pure.

use std::time::Duration;

use weir_cluster::{Activity, nearest};

use crate::window::WindowedLoad;

/// A metric of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Mean time that requests waited for a replica, in microseconds. Triton's counter of this name only grows; here
    /// the value is the rate that its users derive from it: the waiting time in the last 30 s divided by the requests
    /// that waited.
    QueueDuration,
    /// Number of requests queued now.
    PendingRequests,
    /// 99th percentile of the time in the queue, in seconds.
    QueueDelay,
    /// Requests that arrive per second.
    Requests,
}

/// Division of a service's value among its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Each pod has the value of the service, because one queue feeds them all.
    Same,
    /// Each pod has an equal part of the value.
    Equal,
}

impl Metric {
    /// All metrics that are provided.
    pub(crate) const ALL: [Self; 4] = [Self::QueueDuration, Self::PendingRequests, Self::QueueDelay, Self::Requests];

    /// Returns the metric's name, as autoscalers write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::QueueDuration => "nv_inference_queue_duration_us",
            Self::PendingRequests => "nv_inference_pending_request_count",
            Self::QueueDelay => "weir_queue_delay_seconds",
            Self::Requests => "weir_requests_per_second",
        }
    }

    /// Returns the metric with this name.
    ///
    /// # Errors
    /// A sentence that suggests the most similar name, or lists all names.
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

    /// Returns how the value of a service is divided among its pods.
    pub(crate) fn share(self) -> Share {
        match self {
            Self::QueueDuration | Self::QueueDelay => Share::Same,
            Self::PendingRequests | Self::Requests => Share::Equal,
        }
    }

    /// Returns the value for a service with this load.
    pub(crate) fn value(self, load: &WindowedLoad) -> f64 {
        match self {
            Self::QueueDuration => mean_wait_us(&load.activity),
            Self::PendingRequests => load.activity.queued.into(),
            Self::QueueDelay => delay(&load.activity).as_secs_f64(),
            Self::Requests => load.rate,
        }
    }
}

/// Returns the mean wait of the requests that got a replica and of those still queued. Only the longest wait of the
/// queued requests is known. They arrived one after the other, so on average they have waited half of it. Without them,
/// a blocked queue would not count at all.
fn mean_wait_us(activity: &Activity) -> f64 {
    let waiting = f64::from(activity.queued);
    let waited = activity.queue_delay.count() as f64;
    let sum = activity.queue_delay.sum_us() as f64 + waiting * activity.oldest_us as f64 / 2.0;
    let all = waiting + waited;
    if all > 0.0 { sum / all } else { 0.0 }
}

/// Returns the 99th percentile, or the wait of the oldest queued request if it is longer.
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
    fn the_mean_wait_includes_queued_requests() {
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
