//! The waits of a revision's requests as the gateway reports them. A request also waits inside its replica, if that has a
//! queue of its own, and the autoscaler judges both waits together.

use std::sync::Arc;
use std::time::Duration;

use weir_cluster::{Activity, Histogram};

/// Waits of all requests that have been sent to replicas, from the first report of a queue inside a replica on.
#[derive(Debug, Default)]
pub(super) struct ReportedWaits {
    /// Waits at the gateway until the latest report, and the reported ones; `None` before any request waited inside a
    /// replica.
    so_far: Option<Box<Waits>>,
}

#[derive(Debug)]
struct Waits {
    at_gateway: Histogram,
    reported: Histogram,
}

impl ReportedWaits {
    /// Returns the report's activity in which each request sent since the previous report has waited longer by `inside`:
    /// the time that the last request in the queues inside the replicas waits there.
    pub(super) fn counted(&mut self, activity: Arc<Activity>, inside: Duration) -> Arc<Activity> {
        if self.so_far.is_none() && inside.is_zero() {
            return activity;
        }
        let now = &activity.queue_delay;
        let waits =
            self.so_far.get_or_insert_with(|| Box::new(Waits { at_gateway: now.clone(), reported: now.clone() }));
        let sent = now.since(&waits.at_gateway);
        waits.reported.merge(&sent.longer_by(inside));
        waits.at_gateway = now.clone();
        let mut counted = Arc::unwrap_or_clone(activity);
        counted.queue_delay = waits.reported.clone();
        Arc::new(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn requests_that_are_sent_while_others_wait_inside_replicas_wait_there_too() {
        let (mut waits, mut activity) = (ReportedWaits::default(), Activity::default());
        let send = |activity: &mut Activity, requests, wait| {
            (0..requests).for_each(|_| activity.queue_delay.record(wait));
            Arc::new(activity.clone())
        };
        let first = send(&mut activity, 10, Duration::ZERO);
        assert!(Arc::ptr_eq(&waits.counted(Arc::clone(&first), Duration::ZERO), &first));
        waits.counted(first, 3 * SECOND);
        let late = |counted: &Activity| {
            let counts = counted.queue_delay.counts().iter().zip(Histogram::bounds_us());
            counts.filter(|(_, bound)| **bound >= 2_500_000).map(|(count, _)| count).sum::<u64>()
        };
        let counted = waits.counted(send(&mut activity, 7, Duration::ZERO), 3 * SECOND);
        assert_eq!((counted.queue_delay.count(), late(&counted)), (17, 7));
        let counted = waits.counted(send(&mut activity, 5, SECOND), 2 * SECOND);
        assert_eq!((counted.queue_delay.count(), late(&counted)), (22, 12));
        // Without a queue inside, only the wait at the gateway counts.
        let counted = waits.counted(send(&mut activity, 4, SECOND), Duration::ZERO);
        assert_eq!((counted.queue_delay.count(), late(&counted)), (26, 12));
    }
}
