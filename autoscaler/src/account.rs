//! Accounting of a revision: GPU time and requests in time.

use std::time::Duration;

use weir_cluster::ScalingPolicy;

use crate::{Coverage, Sample};

/// GPU time and requests of a revision, counted since this process became the leader.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// Requests that reached a replica or were refused.
    pub requests: u64,
    /// Requests that waited no longer than the policy's queue delay.
    pub in_time: u64,
    /// Total time of all ready replicas.
    pub ready_time: Duration,
    /// Lower bound of the ready time without a request, computed as if each request occupied a replica alone.
    pub idle_time: Duration,
    /// GPUs of each replica; a fraction of a GPU counts as one.
    pub gpus: u32,
    at: Option<Duration>,
}

impl Account {
    /// Adds the requests and the elapsed time of a sample.
    pub(crate) fn add(&mut self, policy: &ScalingPolicy, sample: &Sample, gpus: u32) {
        self.gpus = gpus;
        let (reached, late) = sample.load.lateness(policy.queue_delay);
        let refused = sample.load.activity.refused;
        let requests = reached.saturating_add(refused);
        self.requests = self.requests.saturating_add(requests);
        self.in_time = self.in_time.saturating_add(reached.saturating_sub(late));
        let last = self.at.replace(sample.at).unwrap_or(sample.at);
        let elapsed = sample.at.saturating_sub(last);
        let ready = sample.replicas.ready;
        let idle = match sample.coverage {
            Coverage::Complete => ready.saturating_sub(sample.load.activity.in_flight),
            Coverage::Partial | Coverage::None => 0,
        };
        self.ready_time = self.ready_time.saturating_add(elapsed.saturating_mul(ready));
        self.idle_time = self.idle_time.saturating_add(elapsed.saturating_mul(idle));
    }

    /// Returns the share of requests that waited no longer than the queue delay, 0 to 1; `None` before the first
    /// request.
    #[must_use]
    pub fn attainment(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.in_time as f64 / self.requests as f64)
    }

    /// Returns the share of the ready time without a request, 0 to 1; `None` before any replica was ready.
    #[must_use]
    pub fn idleness(&self) -> Option<f64> {
        let all = self.ready_time.as_secs_f64();
        (all > 0.0).then(|| self.idle_time.as_secs_f64() / all)
    }

    /// Returns the GPU time of all ready replicas, in seconds.
    #[must_use]
    pub fn gpu_seconds(&self) -> f64 {
        self.ready_time.as_secs_f64() * f64::from(self.gpus)
    }

    /// Returns the part of [`Self::gpu_seconds`] without a request.
    #[must_use]
    pub fn idle_gpu_seconds(&self) -> f64 {
        self.idle_time.as_secs_f64() * f64::from(self.gpus)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Load, Replicas};

    /// A sample of `ready` replicas with requests in flight, and the waits of requests that reached a replica.
    fn sample(second: u64, ready: u32, in_flight: u32, waits_ms: &[u64]) -> Sample {
        let mut load = Load::default();
        load.activity.in_flight = in_flight;
        for wait in waits_ms {
            let wait = Duration::from_millis(*wait);
            load.activity.queue_delay.record(wait);
        }
        Sample {
            at: Duration::from_secs(second),
            coverage: Coverage::Complete,
            load,
            replicas: Replicas { ready, ..Replicas::default() },
        }
    }

    #[test]
    fn late_and_refused_requests_miss_the_target() {
        let mut account = Account::default();
        assert_eq!((account.attainment(), account.idleness()), (None, None));
        let mut first = sample(0, 1, 0, &[1, 2, 900, 5000]);
        first.load.activity.refused = 1;
        account.add(&ScalingPolicy::default(), &first, 2);
        assert_eq!((account.requests, account.in_time), (5, 3));
        assert_eq!(account.attainment(), Some(0.6));
    }

    #[test]
    fn replicas_without_requests_are_idle_while_gateways_report() {
        let mut account = Account::default();
        let policy = ScalingPolicy::default();
        account.add(&policy, &sample(10, 4, 1, &[]), 2);
        assert_eq!(account.gpu_seconds(), 0.0);
        account.add(&policy, &sample(12, 4, 1, &[]), 2);
        assert_eq!((account.gpu_seconds(), account.idle_gpu_seconds()), (16.0, 12.0));
        let mut silent = sample(14, 4, 0, &[]);
        silent.coverage = Coverage::None;
        account.add(&policy, &silent, 2);
        assert_eq!((account.gpu_seconds(), account.idle_gpu_seconds()), (32.0, 12.0));
        account.add(&policy, &sample(15, 1, 9, &[]), 2);
        assert_eq!(account.idleness(), Some(6.0 / 17.0));
    }

    proptest! {
        #[test]
        fn shares_stay_between_zero_and_one(
            samples in proptest::collection::vec((0_u64..u64::MAX / 2, any::<u32>(), any::<u32>(), 0_u64..5000), 0..9),
            gpus in any::<u32>(),
        ) {
            let mut account = Account::default();
            for (second, ready, in_flight, wait) in samples {
                let sample = sample(second, ready, in_flight, &[wait]);
                account.add(&ScalingPolicy::default(), &sample, gpus);
            }
            for share in [account.attainment(), account.idleness()].into_iter().flatten() {
                prop_assert!((0.0..=1.0).contains(&share), "{share}");
            }
            prop_assert!(account.idle_gpu_seconds() <= account.gpu_seconds());
        }
    }
}
