//! A queue, a simulated clock, and a record of what happened to each item.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use weir_batcher::{Assembler, Batch, Id, Item, Next, Policy, QueuePolicy, SubmitError, Terms, TimeoutAction};

/// Start of the simulated time, which can be any moment.
#[expect(clippy::disallowed_methods, reason = "the simulated time needs a first moment")]
static START: LazyLock<Instant> = LazyLock::new(|| tokio::time::Instant::now().into_std());

/// Returns the point in time at this span, or number of milliseconds, after the start.
pub(crate) fn at(since: impl IntoSpan) -> Instant {
    *START + since.span()
}

pub(crate) trait IntoSpan {
    fn span(self) -> Duration;
}

impl IntoSpan for Duration {
    fn span(self) -> Duration {
        self
    }
}

impl IntoSpan for u64 {
    fn span(self) -> Duration {
        millis(self)
    }
}

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Admit(Admit),
    Tick(u64),
    Next,
    Cancel(usize),
    Record {
        group: u8,
        weight: usize,
        ms: u64,
    },
    /// A batch of the group ran out of memory, and its largest part that ran had this weight.
    OutOfMemory {
        group: u8,
        fits: usize,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Admit {
    weight: usize,
    group: u8,
    priority: u32,
    timeout: Option<u64>,
    deadline: Option<u64>,
}

impl Op {
    pub(crate) fn admit() -> Self {
        Self::Admit(Admit { weight: 1, group: 0, priority: 0, timeout: None, deadline: None })
    }
}

fn admit() -> impl Strategy<Value = Op> {
    let time = || prop::option::weighted(0.3, 1..60_u64);
    let parts = (1..5_usize, 0..3_u8, 0..4_u32, time(), time());
    parts.prop_map(|(weight, group, priority, timeout, deadline)| {
        Op::Admit(Admit { weight, group, priority, timeout, deadline })
    })
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let record = (0..3_u8, 1..12_usize, 1..20_u64);
    let op = prop_oneof![
        10 => admit(),
        5 => (0..25_u64).prop_map(Op::Tick),
        4 => Just(Op::Next),
        1 => (0..30_usize).prop_map(Op::Cancel),
        1 => record.prop_map(|(group, weight, ms)| Op::Record { group, weight, ms }),
        1 => (0..3_u8, 1..6_usize).prop_map(|(group, fits)| Op::OutOfMemory { group, fits }),
    ];
    prop::collection::vec(op, 0..40)
}

fn rules() -> impl Strategy<Value = QueuePolicy> {
    let action = prop_oneof![Just(TimeoutAction::Reject), Just(TimeoutAction::Delay)];
    let timeout = prop::option::of((0..40_u64).prop_map(millis));
    let size = prop_oneof![3 => Just(0_usize), 1 => 1..10_usize];
    (action, timeout, any::<bool>(), size).prop_map(|(timeout_action, default_timeout, allow, size)| QueuePolicy {
        timeout_action,
        default_timeout,
        allow_timeout_override: allow,
        max_queue_size: size,
    })
}

pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    let delay = prop_oneof![Just(0), 1..50_u64].prop_map(millis);
    let preferred = prop::collection::vec(1..10_usize, 0..3);
    let level_policies = prop::collection::btree_map(1..4_u32, rules(), 0..2);
    let parts = (1..12_usize, delay, preferred, 1..4_u32, rules(), level_policies, 0..50_u64);
    (parts, 5..60_usize).prop_map(|(parts, max_queued)| {
        let (max_weight, delay, preferred, levels, default_queue_policy, level_policies, ageing) = parts;
        Policy {
            delay,
            preferred,
            levels,
            default_level: levels,
            default_queue_policy,
            level_policies,
            ageing: millis(ageing),
            max_queued,
            ..Policy::new(max_weight)
        }
    })
}

/// Returns a policy without delay and with one level.
pub(crate) fn calm() -> Policy {
    Policy::new(6)
}

#[derive(Clone, Debug)]
pub(crate) struct Thing {
    pub(crate) number: usize,
    pub(crate) weight: usize,
    pub(crate) group: u8,
    pub(crate) level: u32,
    pub(crate) arrived: Duration,
    pub(crate) timeout: Option<Duration>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) action: TimeoutAction,
    pub(crate) ends: Vec<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Ran(Duration),
    Expired(Duration),
    Cancelled,
}

impl Thing {
    /// Returns true if the item ran although its timeout had passed in the queue.
    pub(crate) fn is_late(&self) -> bool {
        match self.ends.first() {
            Some(End::Ran(when)) => self.timeout.is_some_and(|timeout| timeout <= *when),
            Some(End::Expired(_) | End::Cancelled) | None => false,
        }
    }

    /// Returns the time from which the item must not run.
    pub(crate) fn end(&self) -> Option<Duration> {
        let timeout = match self.action {
            TimeoutAction::Reject => self.timeout,
            TimeoutAction::Delay => None,
        };
        timeout.into_iter().chain(self.deadline).min()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    number: usize,
    weight: usize,
    group: u8,
}

impl Item for Parcel {
    type Group = u8;

    fn weight(&self) -> usize {
        self.weight
    }

    fn group(&self) -> u8 {
        self.group
    }
}

pub(crate) struct World {
    pub(crate) assembler: Assembler<Parcel>,
    pub(crate) policy: Policy,
    /// Simulated time since the start.
    pub(crate) now: Duration,
    pub(crate) things: Vec<Thing>,
    pub(crate) batches: Vec<Vec<usize>>,
    pub(crate) refusals: Vec<SubmitError>,
    /// Largest weight for which the device has memory, for each group with a batch that ran out of memory.
    rooms: HashMap<u8, usize>,
    /// Number of batches of several items for which the device has no memory.
    pub(crate) too_large: usize,
    ids: HashMap<usize, Id>,
}

impl World {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            assembler: Assembler::new(policy.clone()),
            policy,
            now: Duration::ZERO,
            things: Vec::new(),
            batches: Vec::new(),
            refusals: Vec::new(),
            rooms: HashMap::new(),
            too_large: 0,
            ids: HashMap::new(),
        }
    }

    /// Plays these operations, and then runs all that is left.
    pub(crate) fn played(policy: Policy, ops: &[Op]) -> Self {
        let mut world = Self::new(policy);
        world.play(ops);
        world.drain();
        world
    }

    pub(crate) fn play(&mut self, ops: &[Op]) {
        for op in ops {
            self.step(op);
        }
    }

    pub(crate) fn step(&mut self, op: &Op) {
        match op {
            Op::Admit(admit) => self.admit(admit),
            Op::Tick(ms) => self.now += millis(*ms),
            Op::Next => {
                if let Next::Run(batch) = self.ask() {
                    self.note(batch);
                }
            }
            Op::Cancel(number) => self.cancel(*number),
            Op::Record { group, weight, ms } => {
                self.assembler.record(group, *weight, millis(*ms));
                self.rooms.entry(*group).and_modify(|room| *room = (*room).max(*weight));
            }
            Op::OutOfMemory { group, fits } => {
                self.assembler.ran_out_of_memory(group, *fits, at(self.now));
                self.rooms.insert(*group, *fits);
            }
        }
        self.expire();
    }

    pub(crate) fn ask(&mut self) -> Next<Parcel> {
        let next = self.assembler.next(at(self.now));
        self.expire();
        next
    }

    pub(crate) fn note(&mut self, batch: Batch<Parcel>) {
        self.assembler.finished(batch.number, at(self.now));
        let room = self.rooms.get(&batch.group).copied().unwrap_or(usize::MAX);
        self.too_large += usize::from(batch.members.len() > 1 && batch.weight > room);
        let numbers = batch.members.iter().map(|member| member.item.number);
        let numbers: Vec<usize> = numbers.collect();
        for &number in &numbers {
            self.things[number].ends.push(End::Ran(self.now));
        }
        self.batches.push(numbers);
    }

    pub(crate) fn cancel(&mut self, number: usize) {
        let cancelled = self.ids.get(&number).and_then(|id| self.assembler.cancel(*id));
        if let Some(parcel) = cancelled {
            self.things[parcel.number].ends.push(End::Cancelled);
        }
    }

    pub(crate) fn drain(&mut self) {
        self.assembler.drain();
        while let Next::Run(batch) = self.ask() {
            self.note(batch);
        }
    }

    pub(crate) fn queued(&self) -> impl Iterator<Item = &Thing> {
        self.things.iter().filter(|thing| thing.ends.is_empty())
    }

    /// Iterates over the items that ran, in the order in which they ran.
    pub(crate) fn ran(&self) -> impl Iterator<Item = &Thing> {
        self.batches.iter().flatten().map(|&number| &self.things[number])
    }

    fn expire(&mut self) {
        for expired in self.assembler.expire(at(self.now)) {
            let end = End::Expired(self.now);
            self.things[expired.member.item.number].ends.push(end);
        }
    }

    fn admit(&mut self, admit: &Admit) {
        let number = self.things.len();
        let parcel = Parcel { number, weight: admit.weight, group: admit.group };
        let deadline = admit.deadline.map(|ms| self.now + millis(ms));
        let terms = Terms { priority: admit.priority, timeout: admit.timeout.map(millis), deadline: deadline.map(at) };
        match self.assembler.admit(parcel, terms, at(self.now)) {
            Ok(id) => {
                self.ids.insert(number, id);
                self.things.push(self.thing(admit, deadline));
            }
            Err(refused) => self.refusals.push(refused.error),
        }
    }

    fn thing(&self, admit: &Admit, deadline: Option<Duration>) -> Thing {
        let level = self.policy.level(admit.priority);
        let rules = self.policy.queue_policy(level);
        let timeout = rules.timeout(admit.timeout.map(millis));
        Thing {
            number: self.things.len(),
            weight: admit.weight,
            group: admit.group,
            level,
            arrived: self.now,
            timeout: timeout.map(|timeout| self.now + timeout),
            deadline,
            action: rules.timeout_action,
            ends: Vec::new(),
        }
    }
}
