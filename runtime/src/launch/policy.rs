//! What a configuration asks of the batcher.

use weir_batcher::{Ordering, Policy, QueuePolicy, TimeoutAction};

use crate::config::{self, Batching, ModelConfig};

/// The policy of a completed configuration. Without `dynamic_batching` a model that can batch does,
/// with no delay and the usual limits.
pub(super) fn of(config: &ModelConfig, max_queued: usize) -> Policy {
    let plain = Policy {
        max_queued,
        ..Policy::new(config.max_batch_size.unwrap_or(0).max(1))
    };
    match &config.batching {
        None => plain,
        Some(batching) => with(plain, batching),
    }
}

fn with(plain: Policy, batching: &Batching) -> Policy {
    let level = |level: u64| u32::try_from(level).unwrap_or(u32::MAX);
    let levels = batching.level_queues.iter();
    Policy {
        delay: batching.max_delay,
        // Normalised, "no preferred sizes" reads as the largest alone: what the batcher does anyway.
        preferred: batching.preferred.clone(),
        ordering: if batching.preserve_ordering {
            Ordering::Admission
        } else {
            Ordering::Completion
        },
        levels: level(batching.priority_levels.max(1)),
        default_level: level(batching.default_priority_level.max(1)),
        default_queue_policy: queue(&batching.queue),
        level_policies: levels
            .map(|(number, policy)| (level(*number), queue(policy)))
            .collect(),
        ..plain
    }
}

/// A policy that says nothing is none, and then a request's own timeout counts.
fn queue(given: &config::QueuePolicy) -> QueuePolicy {
    if *given == config::QueuePolicy::default() {
        return QueuePolicy::default();
    }
    QueuePolicy {
        timeout_action: match given.timeout_action {
            config::TimeoutAction::Reject => TimeoutAction::Reject,
            config::TimeoutAction::Delay => TimeoutAction::Delay,
        },
        default_timeout: given.default_timeout,
        allow_timeout_override: given.allow_timeout_override,
        max_queue_size: given.max_queue_size.unwrap_or(0),
    }
}
