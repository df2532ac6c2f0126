//! The choice of the next batch, and of its time.

use std::time::{Duration, Instant};

use super::entry::later;
use super::groups::Group;
use super::{Assembler, Batch, Member, Running, Stage};
use crate::Item;
use crate::prefix::{QueueDelay, Rule, batch_prefix};

/// Readiness of a batch for a free device.
pub(super) enum Ready {
    /// Now, one of the group at that index.
    Batch(usize),
    At(Instant),
    Never,
}

impl<T: Item> Assembler<T> {
    /// Time and group of the next batch for a free device.
    pub(super) fn ready(&self, now: Instant) -> Ready {
        let Some(first) = self.groups.first() else {
            return Ready::Never;
        };
        if self.policy.delay.is_zero() || self.stage == Stage::Draining {
            return Ready::Batch(first);
        }
        let mut soonest = self.timeouts.first().map(|(at, _)| *at);
        for index in self.groups.in_order() {
            let group = self.groups.get(index);
            if self.delay(group, now) == QueueDelay::Over || self.is_worth_running(group) {
                return Ready::Batch(index);
            }
            soonest = soonest.into_iter().chain(self.overdue_at(group)).min();
        }
        soonest.map_or(Ready::Never, Ready::At)
    }

    /// Takes the next batch of a group out of the queue.
    pub(super) fn form(&mut self, index: usize, now: Instant) -> Batch<T> {
        let count = self.count(index, now);
        let (weight, members) = self.take_first(index, count);
        let expected = self.groups.expected(index, weight);
        Batch {
            number: self.run(later(now, expected)),
            group: self.groups.get(index).key.clone(),
            weight,
            expected,
            members,
            formed: now,
        }
    }

    /// Time that a group's next batch will take, as measured; `None` if it never was.
    pub(super) fn measured(&self, index: usize, now: Instant) -> Option<Duration> {
        let group = self.groups.get(index);
        let most = group.curve.choose(self.policy.max_weight.min(group.weight));
        let count = self.prefix(group, most, self.delay(group, now)).unwrap_or(1);
        let weights = group.queue.values().take(count);
        let weight = weights.map(|&slot| self.entries[slot].weight).sum();
        group.curve.time(weight)
    }

    /// Takes the first `count` items of a group out of the queue.
    fn take_first(&mut self, index: usize, count: usize) -> (usize, Vec<Member<T>>) {
        let slots = self.groups.pop(index, count);
        let mut weight = 0;
        let mut members = Vec::with_capacity(slots.len());
        for slot in slots {
            let Some(entry) = self.detach(slot) else {
                continue;
            };
            weight += entry.weight;
            let group = self.groups.get_mut(index);
            group.weight -= entry.weight;
            group.arrivals.remove(&entry.id.seq);
            members.push(entry.member());
        }
        (weight, members)
    }

    /// Numbers a batch that will be done at `until`.
    fn run(&mut self, until: Instant) -> u64 {
        self.batches += 1;
        let batch = self.batches;
        self.running.push(Running { batch, until });
        batch
    }

    /// Number of a group's items that are due; at least one, whatever the rules.
    fn count(&mut self, index: usize, now: Instant) -> usize {
        let delay = self.delay(self.groups.get(index), now);
        let group = self.groups.get_mut(index);
        let limit = group.curve.pick(self.policy.max_weight.min(group.weight));
        let count = self.prefix(self.groups.get(index), limit, delay);
        count.unwrap_or(1)
    }

    /// Whether a batch need not wait for companions: it has the best size of all, not only the best of
    /// what is there.
    fn is_worth_running(&self, group: &Group<T::Group>) -> bool {
        let limit = group.curve.choose(self.policy.max_weight);
        self.prefix(group, limit, QueueDelay::Running).is_some()
    }

    fn prefix(&self, group: &Group<T::Group>, limit: usize, delay: QueueDelay) -> Option<usize> {
        let preferred = &self.policy.preferred;
        let rule = Rule { limit, preferred, delay };
        let weights = group.queue.values().map(|&slot| self.entries[slot].weight);
        batch_prefix(weights, &rule)
    }

    fn delay(&self, group: &Group<T::Group>, now: Instant) -> QueueDelay {
        if self.stage == Stage::Draining {
            return QueueDelay::Over;
        }
        if self.policy.delay.is_zero() {
            return QueueDelay::None;
        }
        if self.overdue_at(group).is_none_or(|at| at <= now) { QueueDelay::Over } else { QueueDelay::Running }
    }

    /// Time at which the oldest item has waited its whole delay.
    fn overdue_at(&self, group: &Group<T::Group>) -> Option<Instant> {
        group.oldest().map(|oldest| later(oldest, self.policy.delay))
    }
}
