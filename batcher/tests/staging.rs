//! Laws of the items that are staged before their batch is formed.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use weir_batcher::{Assembler, AsyncDevice, Id, Item, Next, Policy, Staged, Terms};

/// Start of the simulated time, which can be any moment.
#[expect(clippy::disallowed_methods, reason = "the simulated time needs a first moment")]
static START: LazyLock<Instant> = LazyLock::new(|| tokio::time::Instant::now().into_std());

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[derive(Clone, Debug)]
struct Parcel {
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

#[derive(Clone, Debug)]
enum Op {
    Admit { weight: usize, group: u8, priority: u32 },
    Cancel(usize),
    Stage,
    Pass(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let admit = (1..4_usize, 0..3_u8, 0..3_u32);
    let op = prop_oneof![
        8 => admit.prop_map(|(weight, group, priority)| Op::Admit { weight, group, priority }),
        1 => (0..20_usize).prop_map(Op::Cancel),
        6 => Just(Op::Stage),
        2 => (0..400_u64).prop_map(Op::Pass),
    ];
    prop::collection::vec(op, 0..50)
}

/// A queue whose items are staged for one device.
struct Staging {
    assembler: Assembler<Parcel>,
    queued: Vec<Id>,
    staged: Staged,
    copied: BTreeSet<Id>,
    weight: usize,
    group: Option<u8>,
    now: u64,
}

impl Staging {
    fn new(most: usize) -> Self {
        let mut assembler = Assembler::new(Policy { levels: 2, ..Policy::new(most) });
        for group in 0..3 {
            for rows in [1, 2, 4, 8, 16] {
                assembler.record(&group, rows, micros(100 + 10 * rows as u64));
            }
        }
        let (queued, staged, copied) = (Vec::new(), Staged::default(), BTreeSet::new());
        Self { assembler, queued, staged, copied, weight: 0, group: None, now: 0 }
    }

    fn now(&self) -> Instant {
        *START + micros(self.now)
    }

    fn step(&mut self, op: &Op, most: usize) {
        match *op {
            Op::Admit { weight, group, priority } => {
                let terms = Terms { priority, ..Terms::default() };
                let admitted = self.assembler.admit(Parcel { weight, group }, terms, self.now());
                self.queued.extend(admitted.ok());
            }
            Op::Cancel(number) => {
                if let Some(id) = self.queued.get(number) {
                    self.assembler.cancel(*id);
                }
            }
            Op::Stage => self.stage(most),
            Op::Pass(span) => self.now += span,
        }
    }

    fn stage(&mut self, most: usize) {
        let Some(next) = self.assembler.stage(&mut self.staged) else { return };
        let (id, item) = (next.id, next.item.clone());
        assert!(next.most <= most);
        if self.group != Some(item.group) {
            (self.group, self.weight) = (Some(item.group), 0);
            // An item that was staged for another memory may be staged again.
            self.copied.clear();
        }
        self.weight += item.weight;
        assert!(self.weight <= most, "the staged items are more than a batch");
        assert!(self.copied.insert(id), "an item is staged twice");
        assert!(self.assembler.expires_at(id).is_none() && self.queued.contains(&id));
    }

    /// Returns the next batch's items, as a worker takes it that stages what it can; the wait must end.
    fn pull(&mut self, device: AsyncDevice, most: usize) -> Option<Vec<Id>> {
        for _ in 0..1_000 {
            match self.assembler.next_ahead(device, &self.staged, self.now()) {
                Next::Run(batch) => {
                    self.staged = Staged::default();
                    (self.group, self.weight) = (None, 0);
                    self.copied.clear();
                    self.assembler.finished(batch.number, self.now());
                    assert!(batch.weight <= most || batch.members.len() == 1);
                    return Some(batch.members.iter().map(|member| member.id).collect());
                }
                Next::Idle => return None,
                Next::WaitUntil(at) => {
                    let before = self.copied.len();
                    self.stage(most);
                    let wait = at.saturating_duration_since(self.now()).as_micros() as u64 + 1;
                    self.now += if self.copied.len() > before { 1 } else { wait };
                }
            }
        }
        panic!("the batch never runs");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_item_runs_once_whatever_is_staged(
        ops in ops(), most in 1..16_usize, row in 0..50_u64, launch in 0..500_u64, free in 0..1_000_u64,
    ) {
        let mut staging = Staging::new(most);
        for op in &ops {
            staging.step(op, most);
        }
        let left = staging.assembler.queued();
        let free_at = staging.now() + micros(free);
        let device = AsyncDevice { free_at, inputs: micros(10), launch: micros(launch), row: micros(row) };
        let mut ran = Vec::new();
        while let Some(batch) = staging.pull(device, most) {
            prop_assert!(!batch.is_empty());
            ran.extend(batch);
        }
        prop_assert_eq!(ran.len(), left);
        ran.sort_unstable();
        ran.dedup();
        prop_assert_eq!(ran.len(), left, "an item ran twice");
    }
}

/// The first run of a size compiles for it, and so looks slow. While only one row at a time is staged, no larger size
/// would ever run if batches held no more than the staged rows.
#[test]
fn a_size_that_looked_slow_is_measured_again() {
    let mut staging = Staging::new(16);
    let mut assembler = Assembler::new(Policy::new(16));
    assembler.record(&0, 1, micros(740));
    assembler.record(&0, 2, micros(48_000));
    staging.assembler = assembler;
    let pulls = (0..40).map(|_| {
        while staging.assembler.queued() < 8 {
            staging.step(&Op::Admit { weight: 1, group: 0, priority: 0 }, 16);
        }
        let device = AsyncDevice { free_at: staging.now(), inputs: micros(10), launch: micros(50), row: micros(20) };
        staging.pull(device, 16).map_or(0, |batch| batch.len())
    });
    let sizes: Vec<usize> = pulls.collect();
    assert_eq!(sizes.iter().position(|size| *size > 1), Some(15), "{sizes:?}");
    assert!(sizes.iter().filter(|size| **size > 1).count() <= 2, "{sizes:?}");
}
