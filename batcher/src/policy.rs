//! The batching policy, and the items that it applies to. Names and meanings are Triton's where Triton has them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Settings of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Maximum batch size in rows (`max_batch_size`); 0 counts as 1.
    pub max_weight: usize,
    /// Maximum time that an item waits for more items while a device is free (`max_queue_delay_microseconds`). With
    /// zero, a free device takes the items that are queued. Unlike in Triton, a batch does not wait if earlier waits
    /// showed that no more items come.
    pub delay: Duration,
    /// Batch sizes in rows that run at once (`preferred_batch_size`). If empty, only a full batch does.
    pub preferred: Vec<usize>,
    /// Order in which answers leave (`preserve_ordering`).
    pub ordering: Ordering,
    /// Number of priority levels (`priority_levels`); 0 counts as 1.
    pub levels: u32,
    /// Level of items that name none or one that does not exist; limited to `1..=levels`.
    pub default_level: u32,
    /// Rules of levels that are not in `level_policies`.
    pub default_queue_policy: QueuePolicy,
    /// Rules of single levels, by level number.
    pub level_policies: BTreeMap<u32, QueuePolicy>,
    /// Time that is added to an item's arrival for each level below the first, when items are ordered. An urgent item
    /// overtakes an earlier, less urgent one only if less than this time per level lies between their arrivals, so no
    /// level starves. A longer time is stricter; the maximum of a year means strict priority.
    pub ageing: Duration,
    /// Maximum number of queued items in total, whatever the levels allow.
    pub max_queued: usize,
    /// Refuses items whose predicted wait for a device is longer; `None` refuses none.
    pub max_predicted_wait: Option<Duration>,
}

/// Order in which answers leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// In the order in which batches end.
    #[default]
    Completion,
    /// In the order in which items were admitted, across all devices.
    Admission,
}

/// Rules of a priority level's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Effect of a timeout that passes in the queue.
    pub timeout_action: TimeoutAction,
    /// Timeout of items that set none (`default_timeout_microseconds`).
    pub default_timeout: Option<Duration>,
    /// True if an item's own timeout counts, provided that it is shorter than the default or there is no default.
    /// (Triton ignores it if there is no default.)
    pub allow_timeout_override: bool,
    /// Maximum number of items queued on the level; 0 means no limit other than [`Policy::max_queued`].
    pub max_queue_size: usize,
}

/// Effect of a timeout that passes in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeoutAction {
    /// The item is answered with an error.
    #[default]
    Reject,
    /// The item moves behind all items of its level that are in time, as if it had arrived now and one level lower. It
    /// still runs. (In Triton it may starve.)
    Delay,
}

impl Default for QueuePolicy {
    /// Returns the rules for a level without configuration: only the overall limit applies, and an item's own timeout
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
    /// Over ten seconds of work for a model that processes a thousand items a second: longer than most callers wait,
    /// and little memory.
    pub const DEFAULT_MAX_QUEUED: usize = 16_384;

    /// Long compared to a batch, so that urgent items do go first; short compared to a client's usual timeout of a
    /// minute, so that less urgent items are served in time.
    pub const DEFAULT_AGEING: Duration = Duration::from_secs(1);

    /// Returns a policy that needs no tuning: batches of up to `max_weight` rows, no delay, one level.
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

    /// Returns the level of items with this priority.
    #[must_use]
    pub fn level(&self, priority: u32) -> u32 {
        let levels = self.levels.max(1);
        if (1..=levels).contains(&priority) { priority } else { self.default_level.clamp(1, levels) }
    }

    /// Returns the rules of this level.
    #[must_use]
    pub fn queue_policy(&self, level: u32) -> &QueuePolicy {
        self.level_policies.get(&level).unwrap_or(&self.default_queue_policy)
    }
}

impl QueuePolicy {
    /// Returns the timeout of an item that asks for `wanted`. Zero means no timeout, in `wanted` and in the rules.
    #[must_use]
    pub fn timeout(&self, wanted: Option<Duration>) -> Option<Duration> {
        let default = self.default_timeout.filter(|timeout| !timeout.is_zero());
        [default, self.own_timeout(wanted)].into_iter().flatten().min()
    }

    /// Returns the item's own timeout, if it counts, ignoring the default.
    pub(crate) fn own_timeout(&self, wanted: Option<Duration>) -> Option<Duration> {
        wanted.filter(|timeout| self.allow_timeout_override && !timeout.is_zero())
    }
}

/// A value that can share a batch with others of its group.
pub trait Item: Send + 'static {
    /// Property that all items of a batch have in common, such as their shapes.
    type Group: Clone + Eq + Hash + Debug + Send + 'static;

    /// Returns the number of rows that the item adds to a batch; 0 counts as 1.
    fn weight(&self) -> usize;

    /// Returns the group of the item.
    fn group(&self) -> Self::Group;
}

/// Terms on which an item is submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Priority level, of which 1 is the most urgent; 0 and levels that do not exist mean the policy's default.
    pub priority: u32,
    /// Maximum time in the queue, if the policy lets callers set it; `None` and zero set no timeout.
    pub timeout: Option<Duration>,
    /// Time after which an answer is useless, whether the item is queued or running.
    pub deadline: Option<Instant>,
}
