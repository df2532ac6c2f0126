//! The policy as a value: no clock, no channel, no task, no thread.

mod backlog;
mod entry;
mod groups;
mod types;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::cut::{Patience, Rule, cut};
use crate::forecast::cleared_after;
use crate::{Item, Policy, SubmitError, Terms, TimeoutAction};
use backlog::Backlog;
use entry::{Entry, Rank, later};
use groups::{Groups, Lot};
pub use types::{Batch, Due, Id, Lapsed, Member, Next, Refused};

/// A queue that knows which of its items should run together next.
///
/// Items of a group leave in the order of their levels' ages (see [`Policy::ageing`]); the group
/// whose first item is oldest goes first, unless it waits for companions and another need not. Time
/// is an argument, and never runs backwards: an earlier one than the last counts as the last.
#[derive(Debug)]
pub struct Assembler<T: Item> {
    policy: Policy,
    entries: Slab<Entry<T>>,
    groups: Groups<T::Group>,
    /// When entries time out, soonest first.
    alarms: BTreeSet<(Instant, Id)>,
    backlog: Backlog,
    running: Vec<Running>,
    lapsed: Vec<Lapsed<T>>,
    devices: usize,
    latest: Option<Instant>,
    admitted: u64,
    ranked: u64,
    batches: u64,
    stage: Stage,
}

#[derive(Debug)]
struct Running {
    batch: u64,
    until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    Draining,
}

impl<T: Item> Assembler<T> {
    /// An empty queue under this policy, for one device until [`Assembler::devices`] says otherwise.
    #[must_use]
    pub fn new(mut policy: Policy) -> Self {
        policy.max_weight = policy.max_weight.max(1);
        policy.preferred.sort_unstable();
        Self {
            policy,
            entries: Slab::new(),
            groups: Groups::default(),
            alarms: BTreeSet::new(),
            backlog: Backlog::default(),
            running: Vec::new(),
            lapsed: Vec::new(),
            devices: 1,
            latest: None,
            admitted: 0,
            ranked: 0,
            batches: 0,
            stage: Stage::Open,
        }
    }

    /// Queues an item.
    ///
    /// # Errors
    /// [`Refused`] gives the item back: when draining, when the queue or the level's is full, or when
    /// the item would be late before a device is free.
    pub fn admit(&mut self, item: T, terms: Terms, now: Instant) -> Result<Id, Refused<T>> {
        let now = self.sweep(now);
        let level = self.policy.level(terms.priority);
        if let Some(error) = self.objection(level, &terms, now) {
            return Err(Refused { item, error });
        }
        let id = self.enter(item, level, &terms, now);
        self.admitted += 1;
        Ok(id)
    }

    /// Forms the batch to run on a device that is free now, or says when to ask again: at the latest
    /// then, at once after anything else was called.
    pub fn next(&mut self, now: Instant) -> Next<T> {
        let now = self.sweep(now);
        match self.ripe(now) {
            Ripe::Group(group) => Next::Run(self.form(group, now)),
            Ripe::At(at) => Next::WaitUntil(at),
            Ripe::Nothing => Next::Idle,
        }
    }

    /// What [`Assembler::next`] would say, without doing it.
    pub fn due(&mut self, now: Instant) -> Due {
        let now = self.sweep(now);
        match self.ripe(now) {
            Ripe::Group(_) => Due::Now,
            Ripe::At(at) => Due::At(at),
            Ripe::Nothing => Due::Never,
        }
    }

    /// Takes an item out that nobody waits for any more; `None` when it is not queued.
    pub fn forget(&mut self, id: Id) -> Option<T> {
        let entry = self.entries.get(id.slot)?;
        if entry.id != id {
            return None;
        }
        self.take(id.slot).map(|entry| entry.item)
    }

    /// Takes out everything whose time was over by `now`. Items that are over never run, whether or
    /// not this is called.
    pub fn expire(&mut self, now: Instant) -> Vec<Lapsed<T>> {
        self.sweep(now);
        std::mem::take(&mut self.lapsed)
    }

    /// When [`Assembler::expire`] will take the item out, if it is still queued by then.
    #[must_use]
    pub fn expires_at(&self, id: Id) -> Option<Instant> {
        let entry = self.entries.get(id.slot).filter(|entry| entry.id == id)?;
        entry.end()
    }

    /// Takes in what a batch took, or one of a warm-up.
    pub fn record(&mut self, group: &T::Group, weight: usize, elapsed: Duration) {
        self.groups.record(group, weight, elapsed);
    }

    /// Says that a batch has ended, however it did.
    pub fn finished(&mut self, batch: u64) {
        self.running.retain(|running| running.batch != batch);
    }

    /// Says that a batch formed ahead will start only then.
    pub fn starts(&mut self, batch: u64, at: Instant, expected: Duration) {
        for running in self
            .running
            .iter_mut()
            .filter(|running| running.batch == batch)
        {
            running.until = later(at, expected);
        }
    }

    /// Says how many devices share the work.
    pub fn devices(&mut self, devices: usize) {
        self.devices = devices;
    }

    /// How long an item of that priority, admitted now, would wait for a device: what runs, and what
    /// is queued on its level and more urgent ones, at the measured pace. An estimate on the low
    /// side: the item may find room in a batch that goes sooner.
    #[must_use]
    pub fn predicted_wait(&self, priority: u32, now: Instant) -> Duration {
        self.wait_on(self.policy.level(priority), now)
    }

    /// Refuses everything from now on, and lets what is queued go without delay.
    pub fn drain(&mut self) {
        self.stage = Stage::Draining;
    }

    /// How many items are queued.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.entries.len()
    }

    /// How many groups are remembered, for their curves.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Takes out everything that is queued.
    pub fn abandon(&mut self) -> Vec<Member<T>> {
        let slots: Vec<usize> = self.entries.iter().map(|(slot, _)| slot).collect();
        let taken = slots.into_iter().filter_map(|slot| self.take(slot));
        taken.map(Entry::member).collect()
    }

    fn wait_on(&self, level: u32, now: Instant) -> Duration {
        let left = |running: &Running| running.until.saturating_duration_since(now);
        let mut busy: Vec<Duration> = self.running.iter().map(left).collect();
        // A device with a batch prepared counts once, by the later one.
        busy.sort_unstable_by(|a, b| b.cmp(a));
        busy.resize(self.devices.max(1), Duration::ZERO);
        cleared_after(&mut busy, self.backlog.up_to(level))
    }

    fn objection(&self, level: u32, terms: &Terms, now: Instant) -> Option<SubmitError> {
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
        let allowed = self.allowed(level, terms, now)?;
        let predicted = self.wait_on(level, now);
        (predicted > allowed).then_some(SubmitError::PredictedWait { predicted, allowed })
    }

    /// How long the item may wait at most; `None` for as long as it takes.
    fn allowed(&self, level: u32, terms: &Terms, now: Instant) -> Option<Duration> {
        let rules = self.policy.queue_policy(level);
        let timeout = match rules.timeout_action {
            TimeoutAction::Reject => rules.timeout(terms.timeout),
            TimeoutAction::Delay => None, // late is not lost
        };
        let deadline = terms.deadline.map(|deadline| deadline - now);
        let limits = [timeout, deadline, self.policy.max_predicted_wait];
        limits.into_iter().flatten().min()
    }

    fn enter(&mut self, item: T, level: u32, terms: &Terms, now: Instant) -> Id {
        let rules = self.policy.queue_policy(level);
        let weight = item.weight().max(1);
        let group = self.groups.find(&item.group());
        let slot = self.entries.vacant_key();
        let id = Id {
            seq: self.admitted,
            slot,
        };
        let entry = Entry {
            item,
            id,
            rank: Rank::new(now, self.policy.ageing, level - 1, &mut self.ranked),
            group,
            level,
            weight,
            cost: self.groups.cost(group, weight),
            arrived: now,
            timeout: rules
                .timeout(terms.timeout)
                .map(|timeout| later(now, timeout)),
            action: rules.timeout_action,
            deadline: terms.deadline,
        };
        if let Some(alarm) = entry.alarm() {
            self.alarms.insert((alarm, id));
        }
        self.backlog.add(level, entry.cost);
        let lot = self.groups.add(group, entry.rank, slot, weight);
        if !self.policy.delay.is_zero() {
            lot.arrivals.insert(id.seq, now);
        }
        self.entries.insert(entry);
        id
    }

    /// Takes an entry out of everything that knows it.
    fn take(&mut self, slot: usize) -> Option<Entry<T>> {
        let entry = self.entries.try_remove(slot)?;
        if let Some(alarm) = entry.alarm() {
            self.alarms.remove(&(alarm, entry.id));
        }
        self.backlog.subtract(entry.level, entry.cost);
        let lot = self.groups.remove(entry.group, entry.rank, entry.weight);
        lot.arrivals.remove(&entry.id.seq);
        Some(entry)
    }

    /// Deals with every timeout that has passed, and keeps time from running backwards.
    fn sweep(&mut self, now: Instant) -> Instant {
        let now = self.latest.map_or(now, |latest| latest.max(now));
        self.latest = Some(now);
        while let Some(&(at, id)) = self.alarms.first()
            && at <= now
        {
            self.alarms.pop_first();
            self.ring(id.slot, now);
        }
        now
    }

    fn ring(&mut self, slot: usize, now: Instant) {
        match self.entries.get(slot).and_then(|entry| entry.lapse(now)) {
            Some(cause) => {
                let entry = self.take(slot);
                self.lapsed.extend(entry.map(|entry| entry.lapsed(cause)));
            }
            None => self.demote(slot, now),
        }
    }

    /// Moves a late entry behind all of its level that are queued now.
    fn demote(&mut self, slot: usize, now: Instant) {
        let Some(entry) = self.entries.get_mut(slot) else {
            return;
        };
        entry.timeout = None;
        self.alarms.extend(entry.alarm().map(|at| (at, entry.id)));
        let rank = Rank::new(now, self.policy.ageing, entry.level, &mut self.ranked);
        self.groups.remove(entry.group, entry.rank, entry.weight);
        self.groups.add(entry.group, rank, slot, entry.weight);
        entry.rank = rank;
    }

    fn ripe(&self, now: Instant) -> Ripe {
        let Some(first) = self.groups.first() else {
            return Ripe::Nothing;
        };
        if self.policy.delay.is_zero() || self.stage == Stage::Draining {
            return Ripe::Group(first);
        }
        let mut soonest = self.alarms.first().map(|(at, _)| *at);
        for group in self.groups.in_order() {
            let lot = self.groups.lot(group);
            let overdue = lot.oldest().map(|oldest| later(oldest, self.policy.delay));
            if overdue.is_none_or(|at| at <= now) || self.count(lot, Patience::Wait).is_some() {
                return Ripe::Group(group);
            }
            soonest = soonest.into_iter().chain(overdue).min();
        }
        soonest.map_or(Ripe::Nothing, Ripe::At)
    }

    /// How many items of a group to run with this patience, its curve permitting.
    fn count(&self, lot: &Lot<T::Group>, patience: Patience) -> Option<usize> {
        let most = self.policy.max_weight;
        let limit = match patience {
            // What to wait for is the best size of all, not the best of what is there.
            Patience::Wait => lot.curve.choose(most),
            Patience::Now | Patience::Overdue => lot.curve.choose(most.min(lot.weight)),
        };
        self.cut(lot, limit, patience)
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
        let due = lot.oldest().map(|oldest| later(oldest, self.policy.delay));
        if due.is_none_or(|due| due <= now) {
            Patience::Overdue
        } else {
            Patience::Wait
        }
    }

    fn form(&mut self, group: usize, now: Instant) -> Batch<T> {
        let patience = self.patience(self.groups.lot(group), now);
        let lot = self.groups.lot_mut(group);
        let limit = lot.curve.pick(self.policy.max_weight.min(lot.weight));
        let lot = self.groups.lot(group);
        let count = self.cut(lot, limit, patience).unwrap_or(1);
        let key = lot.key.clone();
        let slots: Vec<usize> = lot.line.values().copied().take(count).collect();
        let mut weight = 0;
        let mut members = Vec::with_capacity(count);
        for entry in slots.into_iter().filter_map(|slot| self.take(slot)) {
            weight += entry.weight;
            members.push(entry.member());
        }
        let expected = self.groups.expected(group, weight);
        self.batches += 1;
        let number = self.batches;
        self.running.push(Running {
            batch: number,
            until: later(now, expected),
        });
        Batch {
            number,
            group: key,
            weight,
            expected,
            members,
            formed: now,
        }
    }
}

enum Ripe {
    Group(usize),
    At(Instant),
    Nothing,
}
