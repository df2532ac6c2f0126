//! An assembler with a clock in milliseconds, for tests that read like a schedule.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use weir_batcher::{Assembler, Batch, Id, Item, Next, Policy, SubmitError, Terms};

/// Start of the simulated time, which can be any moment.
#[expect(clippy::disallowed_methods, reason = "the simulated time needs a first moment")]
static START: LazyLock<Instant> = LazyLock::new(|| tokio::time::Instant::now().into_std());

pub(crate) fn at(ms: u64) -> Instant {
    *START + millis(ms)
}

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An item of a shape with a number of rows.
pub(crate) struct Rows {
    pub(crate) shape: &'static str,
    pub(crate) rows: usize,
}

impl Item for Rows {
    type Group = &'static str;

    fn weight(&self) -> usize {
        self.rows
    }

    fn group(&self) -> &'static str {
        self.shape
    }
}

pub(crate) struct Queue {
    pub(crate) assembler: Assembler<Rows>,
}

impl Queue {
    pub(crate) fn new(policy: Policy) -> Self {
        let assembler = Assembler::new(policy);
        Self { assembler }
    }

    /// Admits an item of one row and shape `a`.
    pub(crate) fn one(&mut self, ms: u64) -> Id {
        self.rows(1, ms)
    }

    pub(crate) fn ones(&mut self, count: usize, ms: u64) {
        for _ in 0..count {
            self.one(ms);
        }
    }

    /// Admits an item of shape `a`.
    pub(crate) fn rows(&mut self, rows: usize, ms: u64) -> Id {
        match self.admit(Rows { shape: "a", rows }, Terms::default(), ms) {
            Ok(id) => id,
            Err(error) => panic!("refused: {error}"),
        }
    }

    pub(crate) fn shape(&mut self, shape: &'static str, ms: u64) {
        let admitted = self.admit(Rows { shape, rows: 1 }, Terms::default(), ms);
        assert!(admitted.is_ok());
    }

    pub(crate) fn with(&mut self, terms: Terms, ms: u64) -> Result<Id, SubmitError> {
        self.admit(Rows { shape: "a", rows: 1 }, terms, ms)
    }

    fn admit(&mut self, item: Rows, terms: Terms, ms: u64) -> Result<Id, SubmitError> {
        let admitted = self.assembler.admit(item, terms, at(ms));
        admitted.map_err(|refused| refused.error)
    }

    /// Returns the batch that runs now, if there is one, and ends it at once.
    pub(crate) fn run(&mut self, ms: u64) -> Option<Batch<Rows>> {
        let batch = self.start(ms)?;
        self.assembler.finished(batch.number, at(ms));
        Some(batch)
    }

    /// Returns the batch that starts now, if there is one.
    pub(crate) fn start(&mut self, ms: u64) -> Option<Batch<Rows>> {
        match self.assembler.next(at(ms)) {
            Next::Run(batch) => Some(batch),
            Next::WaitUntil(_) | Next::Idle => None,
        }
    }

    /// Returns the rows of every batch that runs now, one after the other.
    pub(crate) fn sizes(&mut self, ms: u64) -> Vec<usize> {
        std::iter::from_fn(|| self.run(ms).map(|batch| batch.weight)).collect()
    }

    /// Returns the positions of all items that run now, in order.
    pub(crate) fn order(&mut self, ms: u64) -> Vec<u64> {
        let batches = std::iter::from_fn(|| self.run(ms));
        let members = batches.flat_map(|batch| batch.members);
        members.map(|member| member.id.position()).collect()
    }

    /// Returns the causes of all expiries by now.
    pub(crate) fn expired(&mut self, ms: u64) -> Vec<SubmitError> {
        let expired = self.assembler.expire(at(ms));
        expired.into_iter().map(|expired| expired.cause).collect()
    }
}
