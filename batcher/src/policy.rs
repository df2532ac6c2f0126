//! The batching policy. Its names and meanings are Triton's wherever Triton has them.

use std::collections::BTreeMap;
use std::time::Duration;

/// The settings of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The largest batch, in rows (`max_batch_size`); 0 counts as 1.
    pub max_weight: usize,
    /// Longest wait of an item for companions while a device is free
    /// (`max_queue_delay_microseconds`). Zero: a free device takes what there is.
    pub delay: Duration,
    /// Batch sizes that go at once, in rows (`preferred_batch_size`). Empty: only a full batch does.
    pub preferred: Vec<usize>,
    /// The order in which answers leave (`preserve_ordering`).
    pub ordering: Ordering,
    /// Number of priority levels (`priority_levels`); 0 counts as 1.
    pub levels: u32,
    /// The level of items that name none, or one that does not exist; kept within `1..=levels`.
    pub default_level: u32,
    /// The rules of levels that `level_policies` does not name.
    pub default_queue_policy: QueuePolicy,
    /// The rules of single levels, by number.
    pub level_policies: BTreeMap<u32, QueuePolicy>,
    /// By how much later than it came an item counts as having come, per level below the first. So an
    /// urgent item overtakes, but only what came less than this before it for each level between
    /// them, and no level starves. Longer is stricter; a year is the longest and is strict priority.
    pub ageing: Duration,
    /// Most items queued in all, whatever the levels allow.
    pub max_queued: usize,
    /// Refuse items that would wait longer than this for a device.
    pub max_predicted_wait: Option<Duration>,
}

/// The order in which answers leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// As batches end, whichever ends first.
    #[default]
    Completion,
    /// As items were admitted, over all devices.
    Admission,
}

/// The rules of a priority level's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Effect of a timeout that passes in the queue.
    pub timeout_action: TimeoutAction,
    /// The timeout of items that bring none (`default_timeout_microseconds`).
    pub default_timeout: Option<Duration>,
    /// An item's own timeout counts: where it is shorter than the default, or where there is
    /// no default. (Triton ignores it without a default.)
    pub allow_timeout_override: bool,
    /// Most items queued on the level; 0 is as many as [`Policy::max_queued`] allows.
    pub max_queue_size: usize,
}

/// The effect of a timeout in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeoutAction {
    /// The item is answered with an error.
    #[default]
    Reject,
    /// The item goes behind all of its level that are in time, as if it had come just now and one
    /// level lower. It still runs. (Triton lets it starve.)
    Delay,
}

impl Default for QueuePolicy {
    /// The rules where none are configured: no limit but the overall one, and an item's own timeout
    /// counts, although Triton would ignore it.
    fn default() -> Self {
        Self {
            timeout_action: TimeoutAction::Reject,
            default_timeout: None,
            allow_timeout_override: true,
            max_queue_size: 0,
        }
    }
}

impl Policy {
    /// Over ten seconds of work for a model that answers a thousand items a second: more waiting
    /// than most callers have patience for, and little memory.
    pub const DEFAULT_MAX_QUEUED: usize = 16_384;

    /// Long against a batch, so that urgent items do go first; short against a client's usual
    /// timeout of a minute, so that patient ones are served within it.
    pub const DEFAULT_AGEING: Duration = Duration::from_secs(1);

    /// The policy that needs no tuning: batches of up to `max_weight` rows, no delay, one level.
    #[must_use]
    pub fn new(max_weight: usize) -> Self {
        Self {
            max_weight,
            delay: Duration::ZERO,
            preferred: Vec::new(),
            ordering: Ordering::Completion,
            levels: 1,
            default_level: 1,
            default_queue_policy: QueuePolicy::default(),
            level_policies: BTreeMap::new(),
            ageing: Self::DEFAULT_AGEING,
            max_queued: Self::DEFAULT_MAX_QUEUED,
            max_predicted_wait: None,
        }
    }

    /// The level an item of that priority is on.
    #[must_use]
    pub fn level(&self, priority: u32) -> u32 {
        let levels = self.levels.max(1);
        if (1..=levels).contains(&priority) { priority } else { self.default_level.clamp(1, levels) }
    }

    /// The rules of that level.
    #[must_use]
    pub fn queue_policy(&self, level: u32) -> &QueuePolicy {
        self.level_policies.get(&level).unwrap_or(&self.default_queue_policy)
    }
}

impl QueuePolicy {
    /// Timeout of an item that asks for `wanted`. Zero, here and there, means no timeout.
    #[must_use]
    pub fn timeout(&self, wanted: Option<Duration>) -> Option<Duration> {
        let default = self.default_timeout.filter(|timeout| !timeout.is_zero());
        [default, self.own_timeout(wanted)].into_iter().flatten().min()
    }

    /// The part of `wanted` that counts, without the default.
    pub(crate) fn own_timeout(&self, wanted: Option<Duration>) -> Option<Duration> {
        wanted.filter(|timeout| self.allow_timeout_override && !timeout.is_zero())
    }
}
