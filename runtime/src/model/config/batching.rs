//! The field `dynamic_batching` of a configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_batcher::{QueuePolicy, TimeoutAction};
use weir_protocol::grpc::proto::model_config::SchedulingChoice;
use weir_protocol::grpc::proto::{ModelConfig, ModelDynamicBatching, ModelQueuePolicy, model_queue_policy};

use super::ConfigError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DynamicBatching {
    /// Preferred batch sizes in rows, ascending, each from 1 to the largest batch.
    pub preferred: Vec<usize>,
    /// Longest time that a request waits for others to join its batch.
    pub max_delay: Duration,
    /// True if responses are sent in the order of their requests.
    pub preserve_ordering: bool,
    /// Number of priority levels, of which 1 is the most urgent; 0 for none.
    pub priority_levels: u64,
    /// Priority level of requests that name none; 0 if there are no levels.
    pub default_priority_level: u64,
    /// Queue policy of levels without their own.
    pub queue: QueuePolicy,
    /// Queue policies of individual levels.
    pub level_queues: BTreeMap<u64, QueuePolicy>,
}

/// Parses `dynamic_batching`, if it is configured.
pub(super) fn parse(
    config: &ModelConfig,
    max_batch_size: Option<usize>,
) -> Result<Option<DynamicBatching>, ConfigError> {
    let Some(SchedulingChoice::DynamicBatching(given)) = &config.scheduling_choice else {
        return Ok(None);
    };
    let model = config.name.as_str();
    let preferred = preferred(given, max_batch_size, model)?;
    check_priorities(given, model)?;
    check_order(given, model)?;
    Ok(Some(DynamicBatching {
        preferred,
        max_delay: Duration::from_micros(given.max_queue_delay_microseconds),
        preserve_ordering: given.preserve_ordering,
        priority_levels: given.priority_levels,
        default_priority_level: given.default_priority_level,
        queue: given.default_queue_policy.as_ref().map(queue_policy).unwrap_or_default(),
        level_queues: level_queues(given),
    }))
}

fn preferred(
    given: &ModelDynamicBatching,
    max_batch_size: Option<usize>,
    model: &str,
) -> Result<Vec<usize>, ConfigError> {
    let mut sizes = Vec::with_capacity(given.preferred_batch_size.len());
    for &size in &given.preferred_batch_size {
        let Ok(size @ 1..) = usize::try_from(size) else {
            return Err(ConfigError::Invalid(format!("dynamic batching preferred size must be positive for {model}")));
        };
        if max_batch_size.is_some_and(|max| size > max) {
            return Err(ConfigError::Invalid(format!(
                "dynamic batching preferred size must be <= max batch size for {model}"
            )));
        }
        sizes.push(size);
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

fn check_priorities(given: &ModelDynamicBatching, model: &str) -> Result<(), ConfigError> {
    let levels = given.priority_levels;
    if levels == 0 {
        return Ok(());
    }
    let known = 1..=levels;
    if !known.contains(&given.default_priority_level) {
        return Err(ConfigError::Invalid(format!("default priority level must be in range [1, {levels}] for {model}")));
    }
    if !given.priority_queue_policy.keys().all(|level| known.contains(level)) {
        return Err(ConfigError::Invalid(format!(
            "priority queue policy must have priority level in range [1, {levels}] for {model}"
        )));
    }
    Ok(())
}

/// Returns the queue policies of individual levels. Without levels they have no effect, as in Triton.
fn level_queues(given: &ModelDynamicBatching) -> BTreeMap<u64, QueuePolicy> {
    let has_levels = given.priority_levels > 0;
    given
        .priority_queue_policy
        .iter()
        .filter(|_| has_levels)
        .map(|(level, policy)| (*level, queue_policy(policy)))
        .collect()
}

/// Refuses `preserve_ordering` together with settings that let requests overtake each other.
fn check_order(given: &ModelDynamicBatching, model: &str) -> Result<(), ConfigError> {
    if !given.preserve_ordering {
        return Ok(());
    }
    if given.priority_levels > 1 {
        return Err(ConfigError::Invalid(format!(
            "Only one priority level is allowed when 'preserve_ordering' is true for {model}"
        )));
    }
    let own = level_queues(given).into_values();
    let default = given.default_queue_policy.as_ref().map(queue_policy);
    let mut policies = default.into_iter().chain(own);
    if policies.any(|policy| delays(&policy)) {
        return Err(ConfigError::Invalid(format!(
            "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true \
             for {model}"
        )));
    }
    Ok(())
}

/// Returns true if the policy may delay requests: its timeout action is DELAY, and it has a timeout or allows requests
/// to set one.
fn delays(policy: &QueuePolicy) -> bool {
    let may_expire = policy.default_timeout.is_some() || policy.allow_timeout_override;
    policy.timeout_action == TimeoutAction::Delay && may_expire
}

/// Parses a queue policy. An empty policy is the batcher's default, which applies a request's own timeout.
fn queue_policy(given: &ModelQueuePolicy) -> QueuePolicy {
    let timeout = given.default_timeout_microseconds;
    let policy = QueuePolicy {
        timeout_action: match given.timeout_action() {
            model_queue_policy::TimeoutAction::Reject => TimeoutAction::Reject,
            model_queue_policy::TimeoutAction::Delay => TimeoutAction::Delay,
        },
        default_timeout: (timeout > 0).then(|| Duration::from_micros(timeout)),
        allow_timeout_override: given.allow_timeout_override,
        max_queue_size: given.max_queue_size as usize,
    };
    let unset = QueuePolicy { allow_timeout_override: false, ..QueuePolicy::default() };
    if policy == unset { QueuePolicy::default() } else { policy }
}
