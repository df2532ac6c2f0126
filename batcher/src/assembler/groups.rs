//! The queue and the cost curve of each group.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::ops::Bound;
use std::time::{Duration, Instant};

use slab::Slab;

use super::circulation::Circulation;
use super::company::{Company, Formed};
use super::entry::Rank;
use super::memory_bound::MemoryBound;
use super::returns::Returns;
use crate::Curve;

/// Number of known groups at which groups without items begin to be forgotten. Until then their curves are kept,
/// because they may be needed again. A curve and its key take a few hundred bytes. A model has more shapes than this
/// only if every request has a new one.
const REMEMBERED: usize = 1024;

/// Weight of a new sample in the pace of unmeasured groups, which is averaged over about eight batches.
const SMOOTHING: f64 = 1.0 / 8.0;

#[derive(Debug)]
pub(super) struct Groups<G> {
    by_key: HashMap<G, usize>,
    groups: Slab<Group<G>>,
    /// First rank and index of each group that has items.
    fronts: BTreeSet<(Rank, usize)>,
    /// Counter of look-ups, by which each group's last use is compared with that of other groups.
    uses: u64,
    /// Average time of a row in nanoseconds, over the batches of all groups.
    pace: Option<f64>,
    /// Waits of all groups together, with which a new group begins.
    company: Company,
    /// Maximum batch size in rows.
    most: usize,
}

#[derive(Debug)]
pub(super) struct Group<G> {
    pub(super) key: G,
    /// Slots of the items, in order of their ranks.
    pub(super) queue: BTreeMap<Rank, usize>,
    /// Arrival time of each item by admission number; kept only if the policy has a queue delay, which counts from it.
    pub(super) arrivals: BTreeMap<u64, Instant>,
    /// Total weight of the items in `queue`.
    pub(super) weight: usize,
    /// Number of items in running batches.
    pub(super) running: usize,
    pub(super) curve: Curve,
    pub(super) company: Company,
    pub(super) returns: Returns,
    pub(super) circulation: Circulation,
    pub(super) memory: MemoryBound,
    used: u64,
}

impl<G> Groups<G> {
    /// Returns an empty set of groups, whose batches have at most `most` rows.
    pub(super) fn new(most: usize) -> Self {
        Self {
            by_key: HashMap::new(),
            groups: Slab::new(),
            fronts: BTreeSet::new(),
            uses: 0,
            pace: None,
            company: Company::default(),
            most,
        }
    }
}

impl<G> Group<G> {
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.arrivals.first_key_value().map(|(_, at)| *at)
    }

    /// Returns the rank and the slot of the first item that ranks behind `rank`.
    pub(super) fn after(&self, rank: Rank) -> Option<(&Rank, &usize)> {
        self.queue.range((Bound::Excluded(rank), Bound::Unbounded)).next()
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.running == 0
    }

    fn front(&self) -> Option<Rank> {
        self.queue.first_key_value().map(|(rank, _)| *rank)
    }
}

impl<G: Clone + Eq + Hash> Groups<G> {
    /// Returns the index of the group with this key, which is created if it is not known.
    pub(super) fn find(&mut self, key: &G) -> usize {
        self.uses += 1;
        if let Some(&index) = self.by_key.get(key) {
            self.groups[index].used = self.uses;
            return index;
        }
        if self.groups.len() >= REMEMBERED {
            self.forget_some();
        }
        let index = self.groups.insert(Group {
            key: key.clone(),
            queue: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            weight: 0,
            running: 0,
            curve: Curve::default(),
            company: self.company.clone(),
            returns: Returns::default(),
            circulation: Circulation::default(),
            memory: MemoryBound::default(),
            used: self.uses,
        });
        self.by_key.insert(key.clone(), index);
        index
    }

    pub(super) fn get(&self, index: usize) -> &Group<G> {
        &self.groups[index]
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut Group<G> {
        &mut self.groups[index]
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns the smallest of the bounds that the device's memory sets to batches of the groups.
    pub(super) fn memory_bound(&self, now: Instant) -> Option<usize> {
        self.groups.iter().filter_map(|(_, group)| group.memory.weight(now)).min()
    }

    /// Returns the group whose first item is oldest.
    pub(super) fn first(&self) -> Option<usize> {
        self.fronts.first().map(|(_, index)| *index)
    }

    /// Iterates over the groups with items, starting with the one whose first item is oldest.
    pub(super) fn in_order(&self) -> impl Iterator<Item = usize> + '_ {
        self.fronts.iter().map(|(_, index)| *index)
    }

    pub(super) fn add(&mut self, index: usize, rank: Rank, slot: usize, weight: usize) -> &mut Group<G> {
        let group = &mut self.groups[index];
        let front = group.front();
        group.queue.insert(rank, slot);
        group.weight += weight;
        if front.is_none_or(|front| rank < front) {
            self.fronts.extend([(rank, index)]);
            if let Some(front) = front {
                self.fronts.remove(&(front, index));
            }
        }
        group
    }

    pub(super) fn remove(&mut self, index: usize, rank: Rank, weight: usize) -> &mut Group<G> {
        let group = &mut self.groups[index];
        let front = group.front();
        group.queue.remove(&rank);
        group.weight -= weight;
        if front == Some(rank) {
            self.fronts.remove(&(rank, index));
            self.fronts.extend(group.front().map(|front| (front, index)));
        }
        group
    }

    /// Removes the slots of the first `count` items from the group's queue, and updates its front only once. The caller
    /// must remove their weights and arrivals.
    pub(super) fn pop(&mut self, index: usize, count: usize) -> Vec<usize> {
        let group = &mut self.groups[index];
        if let Some(front) = group.front() {
            self.fronts.remove(&(front, index));
        }
        let popped = std::iter::from_fn(|| group.queue.pop_first());
        let slots = popped.take(count).map(|(_, slot)| slot).collect();
        self.fronts.extend(group.front().map(|front| (front, index)));
        slots
    }

    /// Records for the decision about queue delays that an item was queued.
    pub(super) fn note_arrival(&mut self, index: usize) {
        let group = &mut self.groups[index];
        let together = group.queue.len() + group.running;
        group.company.arrived(together);
        self.company.arrived(together);
    }

    /// Records for the decision about queue delays that a batch is formed from the queued items.
    pub(super) fn note_batch(&mut self, index: usize, formed: Formed) {
        let group = &mut self.groups[index];
        let gathered = group.queue.len();
        group.company.formed(gathered, formed);
        self.company.formed(gathered, formed);
    }

    /// Returns the device time in nanoseconds that an item of this weight will probably take.
    pub(super) fn cost(&self, index: usize, weight: usize) -> u64 {
        let row = self.groups[index].curve.row(self.most).or(self.pace);
        row.map_or(0, |row| (row * weight as f64) as u64)
    }

    /// Returns the time that a batch will probably take; zero if nothing was measured.
    pub(super) fn expected(&self, index: usize, weight: usize) -> Duration {
        let measured = self.groups[index].curve.time(weight);
        measured.unwrap_or_else(|| Duration::from_nanos(self.cost(index, weight)))
    }

    /// Records the time of a batch, and that the device had memory for it.
    pub(super) fn record(&mut self, key: &G, weight: usize, elapsed: Duration, now: Option<Instant>) {
        let index = self.find(key);
        if let Some(now) = now {
            self.groups[index].memory.ran(weight, self.most, now);
        }
        self.groups[index].curve.record(weight, elapsed);
        let row = elapsed.as_nanos() as f64 / weight.max(1) as f64;
        let pace = self.pace.map_or(row, |pace| pace + (row - pace) * SMOOTHING);
        self.pace = Some(pace);
    }

    /// Removes the less recently used half of the groups that have no items, queued or running. Removing half at a time
    /// means that a stream of new shapes pays for this scan only once in 512 shapes.
    fn forget_some(&mut self) {
        let idle = self.groups.iter().filter(|(_, group)| group.is_idle());
        let mut uses: Vec<u64> = idle.map(|(_, group)| group.used).collect();
        if uses.is_empty() {
            return;
        }
        let middle = uses.len() / 2;
        let (_, &mut last, _) = uses.select_nth_unstable(middle);
        let by_key = &mut self.by_key;
        self.groups.retain(|_, group| {
            let keep = !group.is_idle() || group.used > last;
            if !keep {
                by_key.remove(&group.key);
            }
            keep
        });
    }
}
