//! From the bounds that the controller publishes to the policies that the autoscaler keeps.

use std::num::NonZeroU32;
use std::sync::Arc;

use tokio::sync::watch;
use weir_autoscaler::{Economy as Spent, Metric as Kept, Policies, Policy};
use weir_controller::{Bounds, Economy, Metric, ScaledBy, Scaling};

/// Turns each state of the bounds into policies, until nobody publishes or reads them.
pub(super) async fn follow(
    mut bounds: watch::Receiver<Arc<Bounds>>,
    policies: watch::Sender<Arc<Policies>>,
) {
    loop {
        let next = all(&bounds.borrow_and_update());
        policies.send_replace(Arc::new(next));
        tokio::select! {
            changed = bounds.changed() => if changed.is_err() { return },
            () = policies.closed() => return,
        }
    }
}

/// The policies of those revisions whose replicas are ours to set.
fn all(bounds: &Bounds) -> Policies {
    let ours = bounds.iter().filter(|(_, scaling)| match scaling.by {
        ScaledBy::Weir => true,
        ScaledBy::Others => false,
    });
    ours.map(|(name, scaling)| (name.clone(), policy(scaling)))
        .collect()
}

fn policy(scaling: &Scaling) -> Policy {
    let by_default = Policy::default();
    Policy {
        min: scaling.min,
        max: scaling.max.and_then(NonZeroU32::new),
        queue_delay: scaling.queue_delay.unwrap_or(by_default.queue_delay),
        share: scaling.share.unwrap_or(by_default.share),
        economy: scaling.economy.map_or(by_default.economy, economy),
        metric: scaling.metric.map(metric),
        retention: scaling.idle_before_zero,
        scale_down_delay: scaling
            .scale_down_delay
            .unwrap_or(by_default.scale_down_delay),
        window: scaling.window.unwrap_or(by_default.window),
        activation: NonZeroU32::new(scaling.activation).unwrap_or(by_default.activation),
    }
}

fn metric(metric: Metric) -> Kept {
    match metric {
        Metric::Concurrency(most) => Kept::Concurrency(most),
        Metric::Rps(most) => Kept::Rps(most),
    }
}

fn economy(economy: Economy) -> Spent {
    match economy {
        Economy::Economy => Spent::Economy,
        Economy::Balanced => Spent::Balanced,
        Economy::Latency => Spent::Latency,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_cluster::ServiceName;

    use super::*;

    #[test]
    fn what_is_not_set_is_left_to_the_law() {
        assert_eq!(policy(&Scaling::default()), Policy::default());
    }

    #[test]
    fn what_is_set_is_kept() {
        let second = Duration::from_secs(1);
        let kept = policy(&Scaling {
            min: 0,
            max: Some(4),
            queue_delay: Some(second / 4),
            share: Some(0.9),
            economy: Some(Economy::Latency),
            metric: Some(Metric::Concurrency(2.0)),
            activation: 3,
            idle_before_zero: Some(second),
            scale_down_delay: Some(second * 2),
            window: Some(second * 3),
            ..Scaling::default()
        });
        let expected = Policy {
            min: 0,
            max: NonZeroU32::new(4),
            queue_delay: second / 4,
            share: 0.9,
            economy: Spent::Latency,
            metric: Some(Kept::Concurrency(2.0)),
            activation: NonZeroU32::new(3).unwrap(),
            retention: Some(second),
            scale_down_delay: second * 2,
            window: second * 3,
        };
        assert_eq!(kept, expected);
    }

    #[test]
    fn what_others_scale_has_no_policy() {
        let name = ServiceName::new("default", "digits").unwrap();
        let by_others = Scaling {
            by: ScaledBy::Others,
            ..Scaling::default()
        };
        let bounds = [
            (name.revision(1).unwrap(), Arc::default()),
            (name.revision(2).unwrap(), Arc::new(by_others)),
        ];
        let policies = all(&bounds.into());
        assert_eq!(policies.len(), 1);
        assert!(policies.contains_key(&name.revision(1).unwrap()));
    }
}
