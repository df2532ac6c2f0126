//! Which batch comes next, and when.

use std::time::{Duration, Instant};

use super::entry::later;
use super::groups::Lot;
use super::{Assembler, Batch, Member, Running, Stage};
use crate::Item;
use crate::cut::{Patience, Rule, cut};

pub(super) enum Ripe {
    Group(usize),
    At(Instant),
    Nothing,
}

impl<T: Item> Assembler<T> {
    /// What a free device should do now.
    pub(super) fn ripe(&self, now: Instant) -> Ripe {
        let Some(first) = self.groups.first() else {
            return Ripe::Nothing;
        };
        if self.policy.delay.is_zero() || self.stage == Stage::Draining {
            return Ripe::Group(first);
        }
        let mut soonest = self.alarms.first().map(|(at, _)| *at);
        for group in self.groups.in_order() {
            let lot = self.groups.lot(group);
            if self.patience(lot, now) == Patience::Overdue || self.is_worth_running(lot) {
                return Ripe::Group(group);
            }
            soonest = soonest.into_iter().chain(self.overdue_at(lot)).min();
        }
        soonest.map_or(Ripe::Nothing, Ripe::At)
    }

    /// Takes the next batch of a group out of the queue.
    pub(super) fn form(&mut self, group: usize, now: Instant) -> Batch<T> {
        let count = self.count(group, now);
        let (weight, members) = self.leave(group, count);
        let expected = self.groups.expected(group, weight);
        Batch {
            number: self.run(later(now, expected)),
            group: self.groups.lot(group).key.clone(),
            weight,
            expected,
            members,
            formed: now,
        }
    }

    /// How long a group's next batch will take, as far as it was measured; `None` if it never was.
    pub(super) fn measured(&self, group: usize, now: Instant) -> Option<Duration> {
        let lot = self.groups.lot(group);
        let most = lot.curve.choose(self.policy.max_weight.min(lot.weight));
        let count = self.cut(lot, most, self.patience(lot, now)).unwrap_or(1);
        let weights = lot.line.values().take(count);
        let weight = weights.map(|&slot| self.entries[slot].weight).sum();
        lot.curve.time(weight)
    }

    /// Takes the first so many of a group out of the queue.
    fn leave(&mut self, group: usize, count: usize) -> (usize, Vec<Member<T>>) {
        let slots = self.groups.pop(group, count);
        let mut weight = 0;
        let mut members = Vec::with_capacity(slots.len());
        for slot in slots {
            let Some(entry) = self.unlist(slot) else {
                continue;
            };
            weight += entry.weight;
            let lot = self.groups.lot_mut(group);
            lot.weight -= entry.weight;
            lot.arrivals.remove(&entry.id.seq);
            members.push(entry.member());
        }
        (weight, members)
    }

    /// Numbers a batch that will be done by then.
    fn run(&mut self, until: Instant) -> u64 {
        self.batches += 1;
        let batch = self.batches;
        self.running.push(Running { batch, until });
        batch
    }

    /// How many of a group's items are due; at least one, whatever the rules.
    fn count(&mut self, group: usize, now: Instant) -> usize {
        let patience = self.patience(self.groups.lot(group), now);
        let lot = self.groups.lot_mut(group);
        let limit = lot.curve.pick(self.policy.max_weight.min(lot.weight));
        let count = self.cut(self.groups.lot(group), limit, patience);
        count.unwrap_or(1)
    }

    /// Whether there is a batch that need not wait for companions. What to wait for is the best size
    /// of all, not the best of what is there.
    fn is_worth_running(&self, lot: &Lot<T::Group>) -> bool {
        let limit = lot.curve.choose(self.policy.max_weight);
        self.cut(lot, limit, Patience::Wait).is_some()
    }

    fn cut(&self, lot: &Lot<T::Group>, limit: usize, patience: Patience) -> Option<usize> {
        let preferred = &self.policy.preferred;
        let rule = Rule {
            limit,
            preferred,
            patience,
        };
        let weights = lot.line.values().map(|&slot| self.entries[slot].weight);
        cut(weights, &rule)
    }

    fn patience(&self, lot: &Lot<T::Group>, now: Instant) -> Patience {
        if self.stage == Stage::Draining {
            return Patience::Overdue;
        }
        if self.policy.delay.is_zero() {
            return Patience::Now;
        }
        if self.overdue_at(lot).is_none_or(|at| at <= now) {
            Patience::Overdue
        } else {
            Patience::Wait
        }
    }

    /// When the first that came has waited its whole delay.
    fn overdue_at(&self, lot: &Lot<T::Group>) -> Option<Instant> {
        lot.oldest().map(|oldest| later(oldest, self.policy.delay))
    }
}
