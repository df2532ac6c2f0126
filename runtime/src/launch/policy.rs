//! Derives the batcher's policy from a model's configuration.

use weir_batcher::{Ordering, Policy};

use crate::model::config::{DynamicBatching, ModelConfig};

/// Returns the policy for a completed configuration. Without `dynamic_batching`, a model that supports batches still
/// gets them, without delay and with the default limits.
pub(super) fn of(config: &ModelConfig, max_queued: usize) -> Policy {
    let plain = Policy { max_queued, ..Policy::new(config.max_batch_size.unwrap_or(0).max(1)) };
    match &config.batching {
        None => plain,
        Some(batching) => with(plain, batching),
    }
}

fn with(plain: Policy, batching: &DynamicBatching) -> Policy {
    let level = |level: u64| u32::try_from(level).unwrap_or(u32::MAX);
    let levels = batching.level_queues.iter();
    Policy {
        delay: batching.max_delay,
        // The normalised configuration has the largest size as the only preferred one if none is set; the batcher
        // prefers it anyway.
        preferred: batching.preferred.clone(),
        ordering: if batching.preserve_ordering { Ordering::Admission } else { Ordering::Completion },
        levels: level(batching.priority_levels.max(1)),
        default_level: level(batching.default_priority_level.max(1)),
        default_queue_policy: batching.queue,
        level_policies: levels.map(|(number, policy)| (level(*number), *policy)).collect(),
        ..plain
    }
}
