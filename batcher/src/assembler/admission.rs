//! Admission: decides if an item is queued, and at which rank.

use std::time::{Duration, Instant};

use super::entry::{Entry, Rank, later};
use super::{Assembler, Id, Running, Stage};
use crate::forecast::cleared_after;
use crate::{Bound, Item, SubmitError, Terms, TimeoutAction};

impl<T: Item> Assembler<T> {
    /// Returns the predicted wait for a device of an item of this level.
    pub(super) fn wait_on(&self, level: u32, now: Instant) -> Duration {
        let left = |running: &Running| running.until.saturating_duration_since(now);
        // A device with a batch prepared ahead counts once, with the end of that batch.
        let last = self.running.iter().filter(|running| !self.is_followed(running));
        let mut busy: Vec<Duration> = last.map(left).collect();
        busy.sort_unstable_by(|a, b| b.cmp(a));
        busy.resize(self.devices.max(1), Duration::ZERO);
        cleared_after(&mut busy, self.backlog.up_to(level))
    }

    /// Returns true if the batch's device has a later batch as well.
    fn is_followed(&self, batch: &Running) -> bool {
        let is_later = |other: &Running| other.device == batch.device && other.batch > batch.batch;
        batch.device.is_some() && self.running.iter().any(is_later)
    }

    /// Returns the reason not to queue the item, if there is one.
    pub(super) fn refusal(&self, level: u32, terms: &Terms, now: Instant) -> Option<SubmitError> {
        if self.stage == Stage::Draining {
            return Some(SubmitError::Draining);
        }
        let most = self.policy.queue_policy(level).max_queue_size;
        let level_full = most > 0 && self.backlog.queued(level) >= most;
        if level_full || self.entries.len() >= self.policy.max_queued {
            return Some(SubmitError::QueueFull);
        }
        if terms.deadline.is_some_and(|deadline| deadline <= now) {
            let waited = Duration::ZERO;
            return Some(SubmitError::DeadlineExceeded { waited });
        }
        self.predicted_refusal(level, terms, now)
    }

    /// Returns the refusal of an item that would wait too long.
    fn predicted_refusal(&self, level: u32, terms: &Terms, now: Instant) -> Option<SubmitError> {
        let own = self.own_limit(level, terms, now);
        let limits = [own, self.policy_limit(level)];
        let allowed = limits.into_iter().flatten().min()?;
        let predicted = self.wait_on(level, now);
        let bound = match own {
            Some(own) if predicted > own => Bound::Item,
            Some(_) | None => Bound::Policy,
        };
        (predicted > allowed).then_some(SubmitError::PredictedWait { predicted, allowed, bound })
    }

    /// Returns the longest wait that the item itself allows; `None` allows any.
    fn own_limit(&self, level: u32, terms: &Terms, now: Instant) -> Option<Duration> {
        let rules = self.policy.queue_policy(level);
        let timeout = match rules.timeout_action {
            TimeoutAction::Reject => rules.own_timeout(terms.timeout),
            TimeoutAction::Delay => None, // a late item still runs
        };
        let deadline = terms.deadline.map(|deadline| deadline - now);
        [timeout, deadline].into_iter().flatten().min()
    }

    /// Returns the longest wait that the policy allows an item of this level; `None` allows any.
    fn policy_limit(&self, level: u32) -> Option<Duration> {
        let rules = self.policy.queue_policy(level);
        let timeout = match rules.timeout_action {
            TimeoutAction::Reject => rules.timeout(None),
            TimeoutAction::Delay => None,
        };
        let limits = [timeout, self.policy.max_predicted_wait];
        limits.into_iter().flatten().min()
    }

    /// Queues the item unconditionally.
    pub(super) fn insert(&mut self, item: T, level: u32, terms: &Terms, now: Instant) -> Id {
        let group = self.groups.find(&item.group());
        let entry = self.entry(item, group, level, (terms, now));
        let id = entry.id;
        self.timeouts.extend(entry.next_timeout().map(|at| (at, id)));
        self.backlog.add(level, entry.cost);
        let index = group;
        let group = self.groups.add(index, entry.rank, id.slot, entry.weight);
        group.returns.arrived(entry.weight, now);
        if !self.policy.delay.is_zero() {
            group.arrivals.insert(id.seq, now);
            self.groups.note_arrival(index);
        }
        self.entries.insert(entry);
        id
    }

    fn entry(&mut self, item: T, group: usize, level: u32, (terms, now): (&Terms, Instant)) -> Entry<T> {
        let rules = self.policy.queue_policy(level);
        let timeout = rules.timeout(terms.timeout);
        let weight = item.weight().max(1);
        let (seq, slot) = (self.admitted, self.entries.vacant_key());
        let id = Id { seq, slot };
        Entry {
            item,
            id,
            rank: Rank::new(now, self.policy.ageing, level - 1, &mut self.ranked),
            group,
            level,
            weight,
            cost: self.groups.cost(group, weight),
            arrived: now,
            timeout: timeout.map(|timeout| later(now, timeout)),
            own_timeout: timeout.filter(|_| rules.timeout(None) != timeout),
            action: rules.timeout_action,
            deadline: terms.deadline,
        }
    }
}
