//! The batching policy as a pure value, without clock, channel, task or thread.

mod admission;
mod backlog;
mod choice;
mod circulation;
mod company;
mod entry;
mod groups;
mod halves;
mod memory_bound;
mod merge;
mod returns;
mod staging;
mod types;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::{Item, Policy, Terms};
use backlog::Backlog;
use choice::Ready;
use entry::{Entry, Rank, later};
use groups::Groups;
pub use staging::{Staged, ToStage};
pub use types::{AsyncDevice, Batch, Due, ExpiredItem, Id, Member, Next, Refused};

/// A queue that decides which of its items run together next.
///
/// Within a group, items leave by effective arrival: their arrival plus [`Policy::ageing`] for each level below the
/// most urgent one. The group whose first item is oldest goes first, unless it waits for more items while another group
/// has a batch that is due. Time is an argument and never runs backwards: a time earlier than the last one counts as
/// the last one.
#[derive(Debug)]
pub struct Assembler<T: Item> {
    policy: Policy,
    entries: Slab<Entry<T>>,
    groups: Groups<T::Group>,
    /// Timeouts and deadlines of the entries, soonest first.
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
    /// Number of the device; `None` for a batch that is the only one on its device.
    device: Option<usize>,
    until: Instant,
    /// Index of the batch's group.
    group: usize,
    items: usize,
    weight: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    Draining,
}

impl<T: Item> Assembler<T> {
    /// Returns an empty queue with this policy, for one device until [`Assembler::devices`] sets another number.
    #[must_use]
    pub fn new(mut policy: Policy) -> Self {
        policy.max_weight = policy.max_weight.max(1);
        policy.preferred.sort_unstable();
        Self {
            groups: Groups::new(policy.max_weight),
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
    /// [`Refused`], which gives the item back, if the queue is draining, if the queue or its priority level is full, or
    /// if the item would be late before a device is free.
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

    /// Forms the batch to run on a device that is free now. If no batch is due, returns when to call again; after a
    /// call of any other method, call again at once.
    pub fn next(&mut self, now: Instant) -> Next<T> {
        let now = self.advance(now);
        let ready = self.ready(now);
        self.take_ready(ready, now)
    }

    /// Forms the batch to start on a device that works asynchronously, like [`Assembler::next`]. In addition, a batch
    /// waits for items that are not staged yet. It also waits for the next items of callers whose answers were just
    /// sent, or will be sent at the end of a running batch. It waits only if all items are answered sooner on average
    /// when they run together. This is the case where a batch takes nearly as long as a smaller one.
    pub fn next_ahead(&mut self, device: AsyncDevice, staged: &Staged, now: Instant) -> Next<T> {
        let now = self.advance(now);
        let ready = self.ready_ahead(device, staged, now);
        self.take_ready(ready, now)
    }

    /// Returns true if the next batch already has its best size, and no more urgent item can take a place in it. The
    /// batch then gains nothing by being formed later.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let first = self.groups.first().map(|index| self.groups.get(index));
        self.policy.levels <= 1 && first.is_some_and(|group| group.weight >= self.best(group))
    }

    /// Returns when [`Assembler::next`] would have a batch, without taking one.
    pub fn due(&mut self, now: Instant) -> Due {
        let now = self.advance(now);
        match self.ready(now) {
            Ready::Batch { .. } => Due::Now,
            Ready::At(at) => Due::At(at),
            Ready::Never => Due::Never,
        }
    }

    /// Returns the measured time of the batch that [`Assembler::next`] would return; `None` if no batch is due or its
    /// group was never measured.
    pub fn expected(&mut self, now: Instant) -> Option<Duration> {
        let now = self.advance(now);
        match self.ready(now) {
            Ready::Batch { group, .. } => self.measured(group, now),
            Ready::At(_) | Ready::Never => None,
        }
    }

    /// Removes an item whose caller has gone; `None` if the item is not queued.
    pub fn cancel(&mut self, id: Id) -> Option<T> {
        let entry = self.entries.get(id.slot)?;
        if entry.id != id {
            return None;
        }
        self.take(id.slot).map(|entry| entry.item)
    }

    /// Removes all items whose timeout or deadline had passed by `now`. Expired items never run, even if this is not
    /// called.
    pub fn expire(&mut self, now: Instant) -> Vec<ExpiredItem<T>> {
        self.advance(now);
        std::mem::take(&mut self.expired)
    }

    /// Returns the time at which [`Assembler::expire`] removes the item, if it is still queued then.
    #[must_use]
    pub fn expires_at(&self, id: Id) -> Option<Instant> {
        let entry = self.entries.get(id.slot).filter(|entry| entry.id == id)?;
        entry.expires_at()
    }

    /// Records the time of a batch, in operation or in a warm-up.
    pub fn record(&mut self, group: &T::Group, weight: usize, elapsed: Duration) {
        self.groups.record(group, weight, elapsed, self.latest);
    }

    /// Records that a batch of the group ran out of the device's memory, and that its largest part that ran had the
    /// weight `fits`. Batches of the group have at most this weight from now on. Larger ones are tried again after a
    /// second at the earliest, because the memory may have been taken by another model or process.
    pub fn ran_out_of_memory(&mut self, group: &T::Group, fits: usize, now: Instant) {
        let now = self.advance(now);
        let index = self.groups.find(group);
        self.groups.get_mut(index).memory.exceeded(fits, now);
    }

    /// Returns the weight of the largest batch for which the device has memory, in the group where it is smallest;
    /// `None` if batches of no group are limited by [`Assembler::ran_out_of_memory`]. A group without batches for half
    /// a minute does not count.
    #[must_use]
    pub fn memory_bound(&self, now: Instant) -> Option<usize> {
        self.groups.memory_bound(now)
    }

    /// Marks a batch as ended, successfully or not. Call this before the answers are sent, because the next items that
    /// arrive may be those of the same callers.
    pub fn finished(&mut self, batch: u64, now: Instant) {
        let now = self.advance(now);
        if let Some(at) = self.running.iter().position(|running| running.batch == batch) {
            let running = self.running.swap_remove(at);
            let group = self.groups.get_mut(running.group);
            group.running -= running.items;
            group.returns.answered(running.weight, now);
        }
    }

    /// Sets the device of a batch that was formed, and the time at which it starts there. The number of a device is any
    /// that no other device has.
    pub fn starts(&mut self, batch: &Batch<T>, device: usize, at: Instant) {
        for running in self.running.iter_mut().filter(|running| running.batch == batch.number) {
            running.device = Some(device);
            running.until = later(at, batch.expected);
        }
    }

    /// Returns true if a batch of this device, running or formed ahead, has not ended.
    #[must_use]
    pub fn is_busy(&self, device: usize) -> bool {
        self.running.iter().any(|running| running.device == Some(device))
    }

    /// Sets the number of devices that share the queue.
    pub fn devices(&mut self, devices: usize) {
        self.devices = devices;
    }

    /// Returns the predicted wait for a device, for an item of this priority that is admitted now. It counts running
    /// batches and the items queued on the same and more urgent levels, at the measured pace. The prediction is on the
    /// low side, because the item may fit into a batch that runs earlier.
    #[must_use]
    pub fn predicted_wait(&self, priority: u32, now: Instant) -> Duration {
        self.wait_on(self.policy.level(priority), now)
    }

    /// Stops waiting for more items, for queued and future items: too few will come to make waiting useful.
    pub fn flush(&mut self) {
        self.policy.delay = Duration::ZERO;
    }

    /// Refuses all further items, and lets queued items run without delay.
    pub fn drain(&mut self) {
        self.stage = Stage::Draining;
    }

    /// Returns the number of queued items.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of groups that are remembered for their curves.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Removes all queued items.
    pub fn take_all(&mut self) -> Vec<Member<T>> {
        let slots: Vec<usize> = self.entries.iter().map(|(slot, _)| slot).collect();
        let taken = slots.into_iter().filter_map(|slot| self.take(slot));
        taken.map(Entry::member).collect()
    }

    fn take_ready(&mut self, ready: Ready, now: Instant) -> Next<T> {
        match ready {
            Ready::Batch { group, most } => Next::Run(self.form((group, most), now)),
            Ready::At(at) => Next::WaitUntil(at),
            Ready::Never => Next::Idle,
        }
    }

    /// Removes an entry from the queue.
    fn take(&mut self, slot: usize) -> Option<Entry<T>> {
        let entry = self.detach(slot)?;
        let group = self.groups.remove(entry.group, entry.rank, entry.weight);
        group.arrivals.remove(&entry.id.seq);
        Some(entry)
    }

    /// Removes an entry from everything except its group's queue.
    fn detach(&mut self, slot: usize) -> Option<Entry<T>> {
        let entry = self.entries.try_remove(slot)?;
        if let Some(at) = entry.next_timeout() {
            self.timeouts.remove(&(at, entry.id));
        }
        self.backlog.subtract(entry.level, entry.cost);
        Some(entry)
    }

    /// Advances the time to `now`, but never backwards, and handles every timeout that has passed.
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

    /// Moves an entry whose timeout has passed behind all entries of its level.
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
