//! Number and cost of queued items by priority level.

use std::collections::BTreeMap;
use std::time::Duration;

/// Counts and estimated device times of the levels that have items.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    levels: BTreeMap<u32, Level>,
}

#[derive(Debug, Default)]
struct Level {
    queued: usize,
    /// Device time in nanoseconds.
    cost: u64,
}

impl Backlog {
    pub(super) fn add(&mut self, level: u32, cost: u64) {
        let level = self.levels.entry(level).or_default();
        level.queued += 1;
        level.cost += cost;
    }

    pub(super) fn subtract(&mut self, number: u32, cost: u64) {
        let Some(level) = self.levels.get_mut(&number) else {
            return;
        };
        level.queued -= 1;
        level.cost -= cost;
        if level.queued == 0 {
            self.levels.remove(&number);
        }
    }

    pub(super) fn queued(&self, level: u32) -> usize {
        self.levels.get(&level).map_or(0, |level| level.queued)
    }

    /// Returns the device time of all items of this and more urgent levels.
    pub(super) fn up_to(&self, level: u32) -> Duration {
        let costs = self.levels.range(..=level).map(|(_, level)| level.cost);
        Duration::from_nanos(costs.sum())
    }
}
