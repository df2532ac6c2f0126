//! Tries candidates in turn, up to a number of runs and a time limit, until one is accepted.

use std::time::Duration;

use weir_runtime::backend::{LoadError, ModelSource};

use super::Inferred;
use super::candidates::Candidate;
use super::independence::Dependence;
use super::trial::{Rows, Trial};
use crate::execution::runner::{RunOutput, Runner};
use crate::loading::sandbox::{Stage, enter};
use crate::stopwatch::Stopwatch;

/// Largest number of candidates to run.
const MOST_CANDIDATES: usize = 600;

/// Time limit of the search: most candidates fail within a millisecond. Afterwards the signature stays open.
const LONGEST: Duration = Duration::from_secs(8);

/// Start of the shim's errors about a run's outputs. Other inputs would not change them, so the search ends there.
const OF_OUTPUTS: &str = "an output is ";

/// A search for inputs that the model accepts.
pub(super) struct Search<'a> {
    pub(super) source: &'a ModelSource,
    pub(super) runner: &'a Runner,
    /// The reason not to try batches; `None` if batches are allowed.
    pub(super) doubt: Option<&'a str>,
    left: usize,
    stopwatch: Stopwatch,
    spent: Duration,
    best: Option<Complaint>,
    /// Candidates that ran with a batch dimension but were not accepted.
    ran: Vec<Ran>,
    /// The reason that a batch dimension was ruled out.
    mixing: Option<String>,
}

/// A candidate that ran, with the reason not to batch it.
struct Ran {
    candidate: Candidate,
    why: Dependence,
}

/// The reason that the most promising candidate was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    /// The model's own error on the likeliest candidate.
    Run(String),
    /// The model ran, but its outputs cannot be served.
    Outputs(String),
}

impl Complaint {
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Run(reason) | Self::Outputs(reason) => reason,
        }
    }
}

/// Function that accepts a candidate by the outputs of its first run, or returns the reason against it.
type Accept = fn(&Search<'_>, &Trial<'_>, &Candidate, &[RunOutput]) -> Result<Inferred, Dependence>;

impl<'a> Search<'a> {
    pub(super) fn new(source: &'a ModelSource, runner: &'a Runner, doubt: Option<&'a str>) -> Self {
        Self {
            source,
            runner,
            doubt,
            left: MOST_CANDIDATES,
            stopwatch: Stopwatch::start(),
            spent: Duration::ZERO,
            best: None,
            ran: Vec::new(),
            mixing: None,
        }
    }

    /// Returns the reason against a batch dimension, if the model ran with one.
    pub(super) fn mixing(&self) -> Option<&str> {
        self.mixing.as_deref()
    }

    /// Returns the complaint to report to the operator.
    pub(super) fn complaint(self) -> Option<Complaint> {
        self.best
    }

    /// Returns the first accepted signature with a batch dimension.
    pub(super) fn batched(
        &mut self,
        candidates: Vec<Candidate>,
        accept: Accept,
    ) -> Result<Option<Inferred>, LoadError> {
        self.first(candidates, &Rows::Range(0..2), accept)
    }

    /// Returns the first accepted signature without a batch dimension. Candidates that ran as batches are tried first,
    /// with the batch dimension as an ordinary one.
    pub(super) fn whole(&mut self, candidates: Vec<Candidate>, accept: Accept) -> Result<Option<Inferred>, LoadError> {
        let ran = std::mem::take(&mut self.ran).into_iter();
        // Configured inputs already have all their dimensions.
        let ran = ran.filter(|_| self.source.inputs.is_empty());
        let ran: Vec<Candidate> = ran.map(|ran| ran.candidate.with_rows()).collect();
        let others = candidates.into_iter().filter(|other| !ran.contains(other));
        let all = ran.iter().cloned().chain(others).collect();
        self.first(all, &Rows::None, accept)
    }

    fn first(
        &mut self,
        candidates: Vec<Candidate>,
        rows: &Rows,
        accept: Accept,
    ) -> Result<Option<Inferred>, LoadError> {
        for candidate in candidates {
            if !self.ran.iter().all(|ran| ran.allows(&candidate)) {
                continue;
            }
            if let Some(found) = self.attempt(candidate, rows, accept)? {
                return Ok(Some(found));
            }
            if self.left == 0 || self.spent > LONGEST {
                break;
            }
        }
        Ok(None)
    }

    fn attempt(&mut self, candidate: Candidate, rows: &Rows, accept: Accept) -> Result<Option<Inferred>, LoadError> {
        self.left = self.left.saturating_sub(1);
        self.spent += self.stopwatch.lap();
        let (source, runner) = (self.source, self.runner);
        let trial = Trial::new(source, runner, &candidate.inputs).map_err(|error| self.of_example(error))?;
        let complaint = match trial.run(rows.clone(), None) {
            Ok(seen) => {
                let accepted = accept(self, &trial, &candidate, &seen);
                enter(Stage::Inputs);
                return Ok(self.judge(accepted, candidate, rows));
            }
            Err(complaint) => complaint,
        };
        if complaint.contains(OF_OUTPUTS) {
            self.best = Some(Complaint::Outputs(complaint));
            self.left = 0;
            return Ok(None);
        }
        let corrected = candidate.corrected(&complaint);
        self.best.get_or_insert(Complaint::Run(complaint));
        match corrected {
            Some(corrected) if self.left > 0 => self.attempt(corrected, rows, accept),
            Some(_) | None => Ok(None),
        }
    }

    /// Adds to an error about an example's inputs that they come from the example, because no configuration names them.
    fn of_example(&self, error: LoadError) -> LoadError {
        if self.source.example.is_none() || !self.source.inputs.is_empty() {
            return error;
        }
        let model = &self.source.name;
        LoadError::Config(format!("the example of model '{model}' does not fit it: {error}"))
    }

    fn judge(&mut self, accepted: Result<Inferred, Dependence>, candidate: Candidate, rows: &Rows) -> Option<Inferred> {
        let why = match accepted {
            Ok(inferred) => return Some(inferred),
            Err(why) => why,
        };
        match (rows, &why) {
            (Rows::None | Rows::Other(_), _) => {
                self.best = Some(Complaint::Outputs(why.reason().to_owned()));
                return None;
            }
            (Rows::Range(_), Dependence::Mixed(reason)) => self.mixing = Some(reason.clone()),
            (Rows::Range(_), Dependence::Shaped(reason)) => {
                self.mixing.get_or_insert_with(|| reason.clone());
            }
            (Rows::Range(_), Dependence::Failed(_)) => {}
        }
        self.ran.push(Ran { candidate, why });
        None
    }
}

impl Ran {
    /// Returns true if another candidate is worth a run. The model accepts the datatypes of this one, so others must
    /// have them too. If its rows depend on each other, inputs that merely hide this are no better, but inputs with one
    /// more dimension may be.
    fn allows(&self, other: &Candidate) -> bool {
        match &self.why {
            Dependence::Mixed(_) => other.is_deeper_than(&self.candidate),
            Dependence::Shaped(_) | Dependence::Failed(_) => other.datatypes() == self.candidate.datatypes(),
        }
    }
}
