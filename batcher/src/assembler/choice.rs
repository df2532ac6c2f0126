//! Chooses the next batch and the time at which it runs.

use std::time::{Duration, Instant};

use super::company::Formed;
use super::entry::later;
use super::groups::Group;
use super::{Assembler, Batch, Member, Running, Stage};
use crate::Item;
use crate::curve::Pick;
use crate::prefix::{QueueDelay, Rule, batch_prefix};

/// Readiness of a batch for a free device.
pub(super) enum Ready {
    /// A batch of this group, of at most this weight, can run now.
    Batch {
        group: usize,
        most: usize,
    },
    At(Instant),
    Never,
}

impl<T: Item> Assembler<T> {
    /// Returns when the next batch for a free device is ready, and its group.
    pub(super) fn ready(&self, now: Instant) -> Ready {
        let Some(first) = self.groups.first() else {
            return Ready::Never;
        };
        if self.policy.delay.is_zero() || self.stage == Stage::Draining {
            return Ready::Batch { group: first, most: usize::MAX };
        }
        let mut soonest = self.timeouts.first().map(|(at, _)| *at);
        for index in self.groups.in_order() {
            let group = self.groups.get(index);
            if self.may_run(group, now) {
                return Ready::Batch { group: index, most: usize::MAX };
            }
            soonest = soonest.into_iter().chain(self.overdue_at(group)).min();
        }
        soonest.map_or(Ready::Never, Ready::At)
    }

    /// Removes the next batch of a group, of at most the weight `most`, from the queue.
    pub(super) fn form(&mut self, (index, most): (usize, usize), now: Instant) -> Batch<T> {
        let group = self.groups.get(index);
        let allowed = self.most(group).min(group.weight);
        let pick = self.groups.get_mut(index).curve.pick(allowed);
        let count = self.count(self.groups.get(index), (pick, most), now);
        self.note_batch(index, now);
        let all = self.circle(index).all;
        self.groups.get_mut(index).circulation.formed(all);
        let (weight, members) = self.take_first(index, count);
        let expected = self.groups.expected(index, weight);
        Batch {
            number: self.run(index, (weight, members.len()), later(now, expected)),
            group: self.groups.get(index).key.clone(),
            weight,
            expected,
            members,
            formed: now,
        }
    }

    /// Returns the measured time of a group's next batch; `None` if the group was never measured.
    pub(super) fn measured(&self, index: usize, now: Instant) -> Option<Duration> {
        let group = self.groups.get(index);
        let pick = group.curve.next(self.most(group).min(group.weight));
        let count = self.count(group, (pick, usize::MAX), now);
        let weights = group.queue.values().take(count);
        let weight = weights.map(|&slot| self.entries[slot].weight).sum();
        group.curve.time(weight)
    }

    /// Removes the first `count` items of a group from the queue.
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

    /// Assigns a number to a batch that is expected to end at `until`.
    fn run(&mut self, group: usize, (weight, items): (usize, usize), until: Instant) -> u64 {
        self.batches += 1;
        let batch = self.batches;
        self.groups.get_mut(group).running += items;
        self.running.push(Running { batch, device: None, until, group, items, weight });
        batch
    }

    /// Records the end of a queue delay, or that the batch did not wait for its end.
    fn note_batch(&mut self, index: usize, now: Instant) {
        if self.policy.delay.is_zero() || self.stage == Stage::Draining {
            return;
        }
        let group = self.groups.get(index);
        let waited = self.is_overdue(group, now) || self.is_worth_running(group);
        self.groups.note_batch(index, if waited { Formed::AfterWait } else { Formed::Early });
    }

    /// Returns the number of items in the group's next batch, at least one. A batch of the best size has at most the weight
    /// `ready`, which is staged. A probe of a larger size ignores `ready`, because never more than a batch of the best
    /// size is staged.
    fn count(&self, group: &Group<T::Group>, (pick, ready): (Pick, usize), now: Instant) -> usize {
        let limit = match pick {
            Pick::Best(limit) => limit.min(ready),
            Pick::Probe(limit) => limit,
        };
        self.prefix(group, limit, self.delay(group, now)).unwrap_or(1)
    }

    /// Returns true if the group's queue delay is over, or is not worth waiting for.
    pub(super) fn may_run(&self, group: &Group<T::Group>, now: Instant) -> bool {
        match self.delay(group, now) {
            QueueDelay::Over | QueueDelay::None => true,
            QueueDelay::Running => self.is_worth_running(group),
        }
    }

    /// Returns true if a batch need not wait for more items, because it already has the best size of all possible
    /// sizes, not only of those that the queued items allow.
    pub(super) fn is_worth_running(&self, group: &Group<T::Group>) -> bool {
        let limit = group.curve.choose(self.most(group));
        self.prefix(group, limit, QueueDelay::Running).is_some()
    }

    /// Returns the largest weight of the group's batches: the policy's, or less if the device lacks memory for that.
    pub(super) fn most(&self, group: &Group<T::Group>) -> usize {
        let most = self.policy.max_weight;
        self.latest.map_or(most, |now| group.memory.most(most, now))
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
        let more_may_come = group.company.is_likely(group.queue.len());
        if more_may_come && !self.is_overdue(group, now) { QueueDelay::Running } else { QueueDelay::Over }
    }

    fn is_overdue(&self, group: &Group<T::Group>, now: Instant) -> bool {
        self.overdue_at(group).is_none_or(|at| at <= now)
    }

    /// Returns the time at which the oldest item has waited for its whole delay; `None` if the group is empty.
    pub(super) fn overdue_at(&self, group: &Group<T::Group>) -> Option<Instant> {
        group.oldest().map(|oldest| later(oldest, self.policy.delay))
    }
}
