//! The policy as a value: no clock, no channel, no task, no thread.

mod admission;
mod backlog;
mod choice;
mod entry;
mod groups;
mod types;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::{Item, Policy, Terms};
use backlog::Backlog;
use choice::Ready;
use entry::{Entry, Rank, later};
use groups::Groups;
pub use types::{Batch, Due, ExpiredItem, Id, Member, Next, Refused};

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
    /// Timeouts and deadlines of entries, soonest first.
    timeouts: BTreeSet<(Instant, Id)>,
    backlog: Backlog,
    running: Vec<Running>,
    expired: Vec<ExpiredItem<T>>,
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
            groups: Groups::new(policy.max_weight.max(1)),
            policy,
            entries: Slab::new(),
            timeouts: BTreeSet::new(),
            backlog: Backlog::default(),
            running: Vec::new(),
            expired: Vec::new(),
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
        let now = self.advance(now);
        let level = self.policy.level(terms.priority);
        if let Some(error) = self.refusal(level, &terms, now) {
            return Err(Refused { item, error });
        }
        let id = self.insert(item, level, &terms, now);
        self.admitted += 1;
        Ok(id)
    }

    /// Forms the batch to run on a device that is free now, or says when to ask again: at the latest
    /// then, at once after anything else was called.
    pub fn next(&mut self, now: Instant) -> Next<T> {
        let now = self.advance(now);
        match self.ready(now) {
            Ready::Batch(group) => Next::Run(self.form(group, now)),
            Ready::At(at) => Next::WaitUntil(at),
            Ready::Never => Next::Idle,
        }
    }

    /// The answer that [`Assembler::next`] would give, without taking a batch.
    pub fn due(&mut self, now: Instant) -> Due {
        let now = self.advance(now);
        match self.ready(now) {
            Ready::Batch(_) => Due::Now,
            Ready::At(at) => Due::At(at),
            Ready::Never => Due::Never,
        }
    }

    /// Time that the batch of [`Assembler::next`] would take, as measured of its group; `None` where nothing
    /// is due or nothing was measured.
    pub fn expected(&mut self, now: Instant) -> Option<Duration> {
        let now = self.advance(now);
        match self.ready(now) {
            Ready::Batch(group) => self.measured(group, now),
            Ready::At(_) | Ready::Never => None,
        }
    }

    /// Takes an item out whose caller went away; `None` when it is not queued.
    pub fn cancel(&mut self, id: Id) -> Option<T> {
        let entry = self.entries.get(id.slot)?;
        if entry.id != id {
            return None;
        }
        self.take(id.slot).map(|entry| entry.item)
    }

    /// Takes out everything whose time was over by `now`. Items that are over never run, whether or
    /// not this is called.
    pub fn expire(&mut self, now: Instant) -> Vec<ExpiredItem<T>> {
        self.advance(now);
        std::mem::take(&mut self.expired)
    }

    /// Time at which [`Assembler::expire`] takes the item out, if it is still queued by then.
    #[must_use]
    pub fn expires_at(&self, id: Id) -> Option<Instant> {
        let entry = self.entries.get(id.slot).filter(|entry| entry.id == id)?;
        entry.expires_at()
    }

    /// Records what a batch took, at work or in a warm-up.
    pub fn record(&mut self, group: &T::Group, weight: usize, elapsed: Duration) {
        self.groups.record(group, weight, elapsed);
    }

    /// Marks a batch as ended, however it did.
    pub fn finished(&mut self, batch: u64) {
        self.running.retain(|running| running.batch != batch);
    }

    /// Sets the start of a batch that was formed ahead.
    pub fn starts(&mut self, batch: u64, at: Instant, expected: Duration) {
        for running in self.running.iter_mut().filter(|running| running.batch == batch) {
            running.until = later(at, expected);
        }
    }

    /// Sets the number of devices that share the work.
    pub fn devices(&mut self, devices: usize) {
        self.devices = devices;
    }

    /// Wait for a device of an item of that priority, admitted now: what runs, and what
    /// is queued on its level and more urgent ones, at the measured pace. An estimate on the low
    /// side: the item may find room in a batch that goes sooner.
    #[must_use]
    pub fn predicted_wait(&self, priority: u32, now: Instant) -> Duration {
        self.wait_on(self.policy.level(priority), now)
    }

    /// Lets what is queued, and what comes yet, go without delay: there will be no companions to wait for.
    pub fn hurry(&mut self) {
        self.policy.delay = Duration::ZERO;
    }

    /// Refuses everything from now on, and lets what is queued go without delay.
    pub fn drain(&mut self) {
        self.stage = Stage::Draining;
    }

    /// Number of queued items.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.entries.len()
    }

    /// Number of groups remembered for their curves.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Takes out everything that is queued.
    pub fn take_all(&mut self) -> Vec<Member<T>> {
        let slots: Vec<usize> = self.entries.iter().map(|(slot, _)| slot).collect();
        let taken = slots.into_iter().filter_map(|slot| self.take(slot));
        taken.map(Entry::member).collect()
    }

    /// Takes an entry out of the queue.
    fn take(&mut self, slot: usize) -> Option<Entry<T>> {
        let entry = self.detach(slot)?;
        let group = self.groups.remove(entry.group, entry.rank, entry.weight);
        group.arrivals.remove(&entry.id.seq);
        Some(entry)
    }

    /// Takes an entry out of everything but its group's queue.
    fn detach(&mut self, slot: usize) -> Option<Entry<T>> {
        let entry = self.entries.try_remove(slot)?;
        if let Some(at) = entry.next_timeout() {
            self.timeouts.remove(&(at, entry.id));
        }
        self.backlog.subtract(entry.level, entry.cost);
        Some(entry)
    }

    /// Advances to `now`, which never runs backwards, and handles every timeout that has passed.
    fn advance(&mut self, now: Instant) -> Instant {
        let now = self.latest.map_or(now, |latest| latest.max(now));
        self.latest = Some(now);
        while let Some(&(at, id)) = self.timeouts.first()
            && at <= now
        {
            self.timeouts.pop_first();
            self.time_out(id.slot, now);
        }
        now
    }

    fn time_out(&mut self, slot: usize, now: Instant) {
        match self.entries.get(slot).and_then(|entry| entry.expiry(now)) {
            Some(cause) => {
                let entry = self.take(slot);
                self.expired.extend(entry.map(|entry| entry.expired(cause)));
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
        self.timeouts.extend(entry.next_timeout().map(|at| (at, entry.id)));
        let rank = Rank::new(now, self.policy.ageing, entry.level, &mut self.ranked);
        self.groups.remove(entry.group, entry.rank, entry.weight);
        self.groups.add(entry.group, rank, slot, entry.weight);
        entry.rank = rank;
    }
}
