//! Stages the inputs of queued requests while the device runs a batch, so that the next batch can be formed late and
//! still starts at once.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use parking_lot::Mutex;
use weir_batcher::{Id, Stager, Work};

use super::JobResult;
use super::runner::{Runner, now};
use crate::backend::StagedRows;
use crate::model::job::Job;

/// Stages requests on an instance, and remembers where each of them is.
pub(super) struct InputStager<'a> {
    runner: &'a Mutex<Runner>,
    noted: Option<(Id, Job, usize)>,
    staged: HashMap<Id, StagedRows>,
    /// Average time to copy the inputs of one row; zero before the first one.
    row: Duration,
}

/// Weight of a new sample in the average time of a row, over about eight requests.
const SMOOTHING: f64 = 1.0 / 8.0;

impl<'a> InputStager<'a> {
    pub(super) fn new(runner: &'a Mutex<Runner>) -> Self {
        Self { runner, noted: None, staged: HashMap::new(), row: Duration::ZERO }
    }

    /// Returns the time in which the inputs of one row are copied; zero if nothing was staged yet.
    pub(super) fn row(&self) -> Duration {
        self.row
    }

    /// Returns the places of a batch's requests, and forgets those of all others, which the start of the batch
    /// discards.
    pub(super) fn take(&mut self, work: &Work<Job, JobResult>) -> Vec<Option<StagedRows>> {
        let places = work.ids().map(|id| self.staged.get(&id).copied()).collect();
        self.staged.clear();
        places
    }

    /// Returns the time in which the inputs of the jobs without a place are copied; zero if the time of a row is not
    /// known.
    pub(super) fn copying(&self, jobs: &[Job], places: &[Option<StagedRows>]) -> Duration {
        let missing = jobs.iter().zip(places).filter(|(_, place)| place.is_none());
        let rows: usize = missing.map(|(job, _)| job.rows).sum();
        self.row.saturating_mul(u32::try_from(rows).unwrap_or(u32::MAX))
    }

    fn record(&mut self, spent: Duration, rows: usize) {
        let sample = spent.div_f64(rows.max(1) as f64).max(Duration::from_nanos(1));
        let average = self.row.mul_f64(1.0 - SMOOTHING) + sample.mul_f64(SMOOTHING);
        self.row = if self.row.is_zero() { sample } else { average };
    }
}

impl Stager<Job> for InputStager<'_> {
    fn note(&mut self, id: Id, job: &Job, most: usize) {
        self.noted = Some((id, job.clone(), most));
    }

    fn copy(&mut self) -> ControlFlow<()> {
        let Some((id, job, most)) = self.noted.take() else {
            return ControlFlow::Break(());
        };
        let begun = now();
        let Some(rows) = self.runner.lock().stage(&job, most) else {
            return ControlFlow::Break(());
        };
        self.staged.insert(id, rows);
        self.record(begun.elapsed(), job.rows);
        ControlFlow::Continue(())
    }
}
