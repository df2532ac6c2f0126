//! The items of each group in line, and what is known of the group.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use slab::Slab;

use super::entry::Rank;
use crate::Curve;

/// Groups with items, and the last so many without, whose curves may be of use again. A curve and
/// its key take a few hundred bytes; a model sees more shapes than this only when each is new.
const REMEMBERED: usize = 1024;

/// The pace of groups without a measurement follows the last eight batches or so.
const SMOOTHING: f64 = 1.0 / 8.0;

#[derive(Debug)]
pub(super) struct Groups<G> {
    index: HashMap<G, usize>,
    lots: Slab<Lot<G>>,
    /// The first in line of each group that has any.
    heads: BTreeSet<(Rank, usize)>,
    /// Ticks with every look-up; tells which group was of use last.
    uses: u64,
    /// Nanoseconds a row takes in batches of any group.
    pace: Option<f64>,
    /// The largest batch, in rows.
    most: usize,
}

#[derive(Debug)]
pub(super) struct Lot<G> {
    pub(super) key: G,
    /// Slots in their order.
    pub(super) line: BTreeMap<Rank, usize>,
    /// When each came, by admission; kept only where a delay is counted from it.
    pub(super) arrivals: BTreeMap<u64, Instant>,
    /// The sum of weights in `line`.
    pub(super) weight: usize,
    pub(super) curve: Curve,
    used: u64,
}

impl<G> Groups<G> {
    /// No groups yet; batches of theirs have `most` rows at most.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            index: HashMap::new(),
            lots: Slab::new(),
            heads: BTreeSet::new(),
            uses: 0,
            pace: None,
        }
    }
}

impl<G> Lot<G> {
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.arrivals.first_key_value().map(|(_, at)| *at)
    }

    fn head(&self) -> Option<Rank> {
        self.line.first_key_value().map(|(rank, _)| *rank)
    }
}

impl<G: Clone + Eq + Hash> Groups<G> {
    /// The group of that key, made if it is not remembered.
    pub(super) fn find(&mut self, key: &G) -> usize {
        self.uses += 1;
        if let Some(&group) = self.index.get(key) {
            self.lots[group].used = self.uses;
            return group;
        }
        if self.lots.len() >= REMEMBERED {
            self.forget_some();
        }
        let group = self.lots.insert(Lot {
            key: key.clone(),
            line: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            weight: 0,
            curve: Curve::default(),
            used: self.uses,
        });
        self.index.insert(key.clone(), group);
        group
    }

    pub(super) fn lot(&self, group: usize) -> &Lot<G> {
        &self.lots[group]
    }

    pub(super) fn lot_mut(&mut self, group: usize) -> &mut Lot<G> {
        &mut self.lots[group]
    }

    pub(super) fn len(&self) -> usize {
        self.lots.len()
    }

    /// The group whose first item is oldest.
    pub(super) fn first(&self) -> Option<usize> {
        self.heads.first().map(|(_, group)| *group)
    }

    /// Groups with items, the one with the oldest first item first.
    pub(super) fn in_order(&self) -> impl Iterator<Item = usize> + '_ {
        self.heads.iter().map(|(_, group)| *group)
    }

    pub(super) fn add(
        &mut self,
        group: usize,
        rank: Rank,
        slot: usize,
        weight: usize,
    ) -> &mut Lot<G> {
        let lot = &mut self.lots[group];
        let head = lot.head();
        lot.line.insert(rank, slot);
        lot.weight += weight;
        if head.is_none_or(|head| rank < head) {
            self.heads.extend([(rank, group)]);
            if let Some(head) = head {
                self.heads.remove(&(head, group));
            }
        }
        lot
    }

    pub(super) fn remove(&mut self, group: usize, rank: Rank, weight: usize) -> &mut Lot<G> {
        let lot = &mut self.lots[group];
        let head = lot.head();
        lot.line.remove(&rank);
        lot.weight -= weight;
        if head == Some(rank) {
            self.heads.remove(&(rank, group));
            self.heads.extend(lot.head().map(|head| (head, group)));
        }
        lot
    }

    /// Takes the slots of the first so many out of the line, at the cost of one change of its head.
    /// Their weights and arrivals are the caller's to take out.
    pub(super) fn pop(&mut self, group: usize, count: usize) -> Vec<usize> {
        let lot = &mut self.lots[group];
        if let Some(head) = lot.head() {
            self.heads.remove(&(head, group));
        }
        let popped = std::iter::from_fn(|| lot.line.pop_first());
        let slots = popped.take(count).map(|(_, slot)| slot).collect();
        self.heads.extend(lot.head().map(|head| (head, group)));
        slots
    }

    /// Nanoseconds of a device that an item of this weight will probably take.
    pub(super) fn cost(&self, group: usize, weight: usize) -> u64 {
        let row = self.lots[group].curve.row(self.most).or(self.pace);
        row.map_or(0, |row| (row * weight as f64) as u64)
    }

    /// What a batch will probably take; zero while nothing was measured.
    pub(super) fn expected(&self, group: usize, weight: usize) -> Duration {
        let measured = self.lots[group].curve.time(weight);
        measured.unwrap_or_else(|| Duration::from_nanos(self.cost(group, weight)))
    }

    pub(super) fn record(&mut self, key: &G, weight: usize, elapsed: Duration) {
        let group = self.find(key);
        self.lots[group].curve.record(weight, elapsed);
        let row = elapsed.as_nanos() as f64 / weight.max(1) as f64;
        let pace = self
            .pace
            .map_or(row, |pace| pace + (row - pace) * SMOOTHING);
        self.pace = Some(pace);
    }

    /// Forgets the older half of the groups that have no items: half, so that a stream of new shapes
    /// pays for looking through them once in 512 times.
    fn forget_some(&mut self) {
        let idle = self.lots.iter().filter(|(_, lot)| lot.line.is_empty());
        let mut uses: Vec<u64> = idle.map(|(_, lot)| lot.used).collect();
        if uses.is_empty() {
            return;
        }
        let middle = uses.len() / 2;
        let (_, &mut last, _) = uses.select_nth_unstable(middle);
        let index = &mut self.index;
        self.lots.retain(|_, lot| {
            let keep = !lot.line.is_empty() || lot.used > last;
            if !keep {
                index.remove(&lot.key);
            }
            keep
        });
    }
}
