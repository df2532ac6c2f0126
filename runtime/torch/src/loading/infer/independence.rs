//! Tests that each row of a batch is answered as if it were alone; only then may requests of different clients share a
//! run.
//!
//! The row under test is run alone, and then at several positions of batches of several sizes, beside similar rows,
//! larger ones, zeros, and rows with the same key or the same elements. The outputs must be the same each time. The tolerance depends on what differs. Kernels for
//! another batch size add in another order, so small differences are allowed. At the same batch size the kernels are
//! the same, and the other rows must have no effect beyond rounding noise.
//!
//! Integers are small in these runs, because they may be indices. If the model accepts larger integers, the most
//! telling runs are repeated with them: a length, a class or a count in one row may change the result of other rows.
//!
//! On a GPU, an out-of-range index makes the device unusable for all models. Inputs that may be such an index are tried
//! on a copy of the model on the CPU instead.

mod likeness;
mod reach;
mod rows;

use std::time::Duration;

use weir_runtime::backend::{ModelSource, TensorConfig};

use super::trial::Trial;
use crate::execution::runner::{Placement, RunOutput, Runner};
use crate::loading::Remark;
use crate::stopwatch;
use likeness::{RowOutput, Tolerance};
use rows::{Increase, OtherRows, Row, Shared};

/// CPU time after which only the [telling](telling_cases) batches are run. If time grows with the number of rows, a
/// model with one input that takes 36 ms per row runs only these; one that takes 2.3 ms runs all 27, which have 211 rows
/// if the largest batch has 32.
const BUDGET: Duration = Duration::from_millis(500);

/// Largest number of inputs of which each is tried as a key that rows have in common.
const KEYS: usize = 4;

/// Largest batch that is tried. No known kernel or model code behaves differently beyond it.
const LARGEST: usize = 32;

/// Further batch sizes, for code with special cases by size.
const SIZES: [usize; 5] = [4, 5, 6, 7, 16];

/// The reason not to batch a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dependence {
    /// The model takes one row but not several, or does not take the row at all.
    Failed(String),
    /// Some output does not have one part per row, which may be due to the shape of the tried inputs.
    Shaped(String),
    /// A row's outputs depend on the other rows, or the runs cannot show that they do not.
    Mixed(String),
}

impl Dependence {
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Failed(reason) | Self::Shaped(reason) | Self::Mixed(reason) => reason,
        }
    }
}

/// A batch to try: the row under test is at index `place`, between rows of the kind `other_rows`, which may share inputs
/// with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    rows: usize,
    place: usize,
    other_rows: OtherRows,
    shared: Shared,
}

impl Case {
    const fn new(rows: usize, place: usize, other_rows: OtherRows) -> Self {
        Self { rows, place, other_rows, shared: Shared::Nothing }
    }
}

/// Checks that the answer to a row is the same in every batch of up to `max_batch_size` rows.
///
/// # Errors
/// [`Dependence`] if a row's outputs change, or if the runs cannot show that they do not.
pub(crate) fn check(
    source: &ModelSource,
    runner: &Runner,
    inputs: &[TensorConfig],
    max_batch_size: usize,
) -> Result<(), Dependence> {
    check_on_device(source, runner, inputs, max_batch_size)?;
    match &runner.placement {
        Placement::Cuda(_) if max_batch_size > 1 => check_on_processor(source, runner, inputs, max_batch_size),
        Placement::Cuda(_) | Placement::Processor => Ok(()),
    }
}

/// Makes the runs on a copy of the model on the CPU. Runs with integers and NaN that may make a GPU unusable are made
/// only there. If there is no such copy, or the copy does not run, the rows count as dependent.
fn check_on_processor(
    source: &ModelSource,
    runner: &Runner,
    inputs: &[TensorConfig],
    max_batch_size: usize,
) -> Result<(), Dependence> {
    let doubt = |reason: String| {
        Dependence::Mixed(format!(
            "rows of all kinds can be tried on the processor only, and there the model does not run because \
             {reason}"
        ))
    };
    let copy = runner.on_processor().map_err(doubt)?;
    match check_on_device(source, &copy, inputs, max_batch_size) {
        Err(Dependence::Failed(reason)) => Err(doubt(reason)),
        checked => checked,
    }
}

/// Makes the runs that cannot harm the runner's device.
fn check_on_device(
    source: &ModelSource,
    runner: &Runner,
    inputs: &[TensorConfig],
    max_batch_size: usize,
) -> Result<(), Dependence> {
    let trial = Trial::new(source, runner, inputs);
    let trial = trial.map_err(|error| Dependence::Failed(error.to_string()))?;
    let mut test = Test::new(trial, runner, Increase::none(inputs.len()));
    test.run_cases(&telling_cases(max_batch_size, inputs.len()), &cases(max_batch_size))?;
    if max_batch_size < 2 {
        return Ok(());
    }
    if !test.informative {
        return Err(Dependence::Mixed(
            "the trial runs cannot show that the rows of a batch are independent, because every row has the same \
             outputs"
                .to_owned(),
        ));
    }
    check_other_subjects(runner, &test.trial, max_batch_size)?;
    check_integers(runner, &test.trial, max_batch_size)
}

/// Makes runs with subject rows of other elements than the usual small ones: a model that rounds to whole numbers turns
/// a small row into zeros, and one that replaces missing, negative or zero elements by those of the batch leaves a row of
/// positive numbers as it is. Both would hide the effect of the other rows.
fn check_other_subjects(runner: &Runner, trial: &Trial<'_>, max_batch_size: usize) -> Result<(), Dependence> {
    let subjects = [OtherRows::Medium, OtherRows::Negative, OtherRows::Zeros, OtherRows::NotANumber];
    subjects.into_iter().try_for_each(|subject| check_subject(subject, runner, trial, max_batch_size))
}

/// Makes runs with one subject row. Large sums differ more when they are added in another order, so only batches of one
/// size are compared. A row that the model does not take proves nothing.
fn check_subject(
    subject: OtherRows,
    runner: &Runner,
    trial: &Trial<'_>,
    max_batch_size: usize,
) -> Result<(), Dependence> {
    let increase = Increase::none(trial.inputs().len());
    let mut test = Test::new(trial.on(trial.inputs()), runner, increase);
    test.subject = subject;
    for other_rows in [OtherRows::Large, OtherRows::Zeros, OtherRows::Alike] {
        match test.compare(Case::new(2.min(max_batch_size), 1, other_rows), None) {
            Ok(()) => {}
            Err(Dependence::Failed(_)) => return Ok(()),
            Err(dependence) => return Err(dependence),
        }
    }
    Ok(())
}

/// Makes runs with larger integers, in rows of the trial's sizes and in rows of one element: in some models an integer
/// must match a size.
fn check_integers(runner: &Runner, trial: &Trial<'_>, max_batch_size: usize) -> Result<(), Dependence> {
    let single: Vec<TensorConfig> = trial.inputs().iter().map(single).collect();
    let sizes = [trial.inputs(), single.as_slice()];
    let sizes = sizes.into_iter().take(if trial.has_example() { 1 } else { 2 });
    for inputs in sizes {
        let mut test = Test::new(trial.on(inputs), runner, Increase::none(inputs.len()));
        let Some(reach) = reach::find(&mut test) else {
            continue;
        };
        // The size of another input may clip large integers, which makes all rows alike again, so the least increase is
        // tried too.
        for reach in [reach.least(), reach] {
            run_raised(Test::new(trial.on(inputs), runner, reach), max_batch_size)?;
        }
    }
    Ok(())
}

/// Makes the runs with one increase. A batch that fails proves nothing, because the engine would run it again row by
/// row.
fn run_raised(mut test: Test<'_>, max_batch_size: usize) -> Result<(), Dependence> {
    let inputs = test.trial.inputs().len();
    match test.run_cases(&telling_cases(max_batch_size, inputs), &cases_of_reach(max_batch_size)) {
        Ok(()) | Err(Dependence::Failed(_)) => Ok(()),
        Err(dependence) => Err(dependence),
    }
}

/// Returns the input with one element per row.
fn single(input: &TensorConfig) -> TensorConfig {
    let mut single = input.clone();
    let dims = single.reshape.as_mut().unwrap_or(&mut single.dims);
    dims.fill(1);
    single
}

/// Returns a remark if rows of a batch depend on each other although the configuration lets requests share a run.
pub(crate) fn if_mixed(
    source: &ModelSource,
    runner: &Runner,
    inputs: &[TensorConfig],
    max_batch_size: usize,
) -> Option<Remark> {
    let instead = "with max_batch_size: 0 each request runs by itself";
    if let Some(reason) = runner.module.self_writes().reason() {
        return Some(Remark::new(
            "the model may keep something from one run to the next, and requests of different clients share runs",
            reason,
            instead,
        ));
    }
    // A copy on the CPU would delay each start only for a warning, so none is made.
    match check_on_device(source, runner, inputs, max_batch_size) {
        Err(Dependence::Mixed(reason) | Dependence::Shaped(reason)) => Some(Remark::new(
            "a request's answer may depend on the requests of others that it shares a run with",
            reason,
            instead,
        )),
        Err(Dependence::Failed(_)) | Ok(()) => None,
    }
}

/// Returns a remark if requests do not share runs because the rows were not shown to be independent.
pub(crate) fn unbatched(source: &ModelSource, runner: &Runner, mixed: Option<&str>) -> Option<Remark> {
    if source.max_batch_size.is_some() {
        return None;
    }
    let reason = runner.module.self_writes().reason().or(mixed)?;
    Some(Remark::new(
        "each request runs by itself: those that shared a run might have each other's answers",
        reason,
        "configure max_batch_size, inputs and outputs in config.pbtxt",
    ))
}

/// Returns the batches that are run regardless of their duration: the row under test between two similar rows, between
/// two larger rows, beside one similar row, beside itself, and beside larger rows that share an input with it.
fn telling_cases(max_batch_size: usize, inputs: usize) -> Vec<Case> {
    let mut cases = vec![
        Case::new(3, 1, OtherRows::Alike),
        Case::new(3, 1, OtherRows::Large),
        Case::new(2, 1, OtherRows::Alike),
        Case { shared: Shared::All, ..Case::new(2, 1, OtherRows::Alike) },
    ];
    cases.extend(keys(inputs).map(|shared| Case { shared, ..Case::new(2, 1, OtherRows::Large) }));
    cases.retain(|case| case.rows <= max_batch_size);
    cases
}

/// Returns each input that may be a key by which a model joins rows: none if there is only one input.
fn keys(inputs: usize) -> impl Iterator<Item = Shared> {
    let keys = if inputs < 2 { 0 } else { inputs.min(KEYS) };
    (0..keys).map(Shared::Input)
}

/// Returns the batches to try as far as there is time, the most telling first.
fn cases(max_batch_size: usize) -> Vec<Case> {
    let largest = max_batch_size.min(LARGEST);
    let all = [OtherRows::Alike, OtherRows::Zeros, OtherRows::Large];
    let first = [(2, 1, OtherRows::NotANumber), (2, 0, OtherRows::Negative), (2, 0, OtherRows::LargeNegative)];
    let places = [(2, 1), (8, 4), (3, 1), (2, 0), (8, 7), (largest, largest / 2)];
    let others = places.into_iter().flat_map(|(rows, place)| all.map(|other_rows| (rows, place, other_rows)));
    let sizes = SIZES.map(|rows| (rows, rows / 2, OtherRows::Alike));
    let mut cases = Vec::new();
    for (rows, place, other_rows) in first.into_iter().chain(others).chain(sizes) {
        let case = Case::new(rows, place, other_rows);
        let is_new = !cases.contains(&case) && !telling_cases(max_batch_size, 0).contains(&case);
        if (2..=largest).contains(&rows) && is_new {
            cases.push(case);
        }
    }
    cases
}

/// Returns the batches to try with larger integers as far as there is time.
fn cases_of_reach(max_batch_size: usize) -> Vec<Case> {
    let all = [OtherRows::Large, OtherRows::Zeros];
    all.map(|other_rows| Case::new(2, 0, other_rows)).into_iter().filter(|case| case.rows <= max_batch_size).collect()
}

/// State of one test of a model.
struct Test<'a> {
    trial: Trial<'a>,
    runner: &'a Runner,
    reach: Increase,
    /// The elements of the row under test.
    subject: OtherRows,
    /// Outputs of the row under test in the first batch of each size and position.
    seen: Vec<(Case, Vec<RowOutput>)>,
    /// True once two rows had different outputs. A model with the same outputs for all rows cannot be tested.
    informative: bool,
    spent: Duration,
}

impl<'a> Test<'a> {
    fn new(trial: Trial<'a>, runner: &'a Runner, reach: Increase) -> Self {
        Self {
            trial,
            runner,
            reach,
            subject: OtherRows::Subject,
            seen: Vec::new(),
            informative: false,
            spent: Duration::ZERO,
        }
    }

    /// Compares the row alone with the row in each batch: in the first batches always, and in the others until the time
    /// budget is used up.
    fn run_cases(&mut self, always: &[Case], others: &[Case]) -> Result<(), Dependence> {
        let alone = self.alone()?;
        let row_time = self.spent / 2;
        for case in always {
            self.compare(*case, Some(&alone))?;
        }
        for case in others {
            let expected = row_time * u32::try_from(case.rows).unwrap_or(u32::MAX);
            if self.spent + expected > BUDGET {
                break;
            }
            self.compare(*case, Some(&alone))?;
        }
        Ok(())
    }

    /// Runs the row alone, twice: a model that uses random numbers gives different outputs each time. On a GPU it runs a
    /// third time if the first two differ, because libtorch compiles other kernels after the first run.
    fn alone(&mut self) -> Result<Vec<RowOutput>, Dependence> {
        let row = self.row(1, OtherRows::Subject)?;
        let outputs = self.run(&[&row]).map_err(Dependence::Failed)?;
        let tolerance = self.tolerance(&outputs);
        let mut before = split(&outputs, 1)?.remove(0);
        let repeats = if self.runner.placement.is_processor() { 1 } else { 2 };
        let mut difference = String::new();
        for _ in 0..repeats {
            let again = self.run(&[&row]).map_err(Dependence::Failed)?;
            let again = split(&again, 1)?.remove(0);
            match likeness::first_difference(&before, &again, tolerance.same_kernels) {
                None => return Ok(again),
                Some(found) => difference = found,
            }
            before = again;
        }
        Err(Dependence::Mixed(format!("{difference} when the same row is run twice")))
    }

    fn compare(&mut self, case: Case, alone: Option<&[RowOutput]>) -> Result<(), Dependence> {
        let Some((row, tolerance)) = self.subject_in(case)? else { return Ok(()) };
        let same_size = |(seen, _): &&(Case, _)| (seen.rows, seen.place) == (case.rows, case.place);
        let before = self.seen.iter().find(same_size).cloned();
        let beside =
            before.as_ref().and_then(|(_, before)| likeness::first_difference(before, &row, tolerance.same_kernels));
        let beside = match (beside, before) {
            (Some(_), Some((before, _))) if !self.runner.placement.is_processor() => self.differs(before, case)?,
            (beside, _) => beside,
        };
        let difference = beside.or_else(|| likeness::first_difference(alone?, &row, tolerance.other_kernels));
        if let Some(difference) = difference {
            return Err(Dependence::Mixed(format!("{difference} with the rows beside it in a batch of {}", case.rows)));
        }
        self.seen.push((case, row));
        Ok(())
    }

    /// Runs two batches of the same size again, and returns the difference between the outputs of the row under test. On a
    /// GPU, libtorch compiles other kernels after the first runs of a size, which round otherwise.
    fn differs(&mut self, before: Case, case: Case) -> Result<Option<String>, Dependence> {
        let (Some((before, _)), Some((row, tolerance))) = (self.subject_in(before)?, self.subject_in(case)?) else {
            return Ok(None);
        };
        Ok(likeness::first_difference(&before, &row, tolerance.same_kernels))
    }

    /// Runs a batch. Returns the outputs of the row under test; `None` if a failure of the batch proves nothing.
    fn subject_in(&mut self, case: Case) -> Result<Option<(Vec<RowOutput>, Tolerance)>, Dependence> {
        let rows = (0..case.rows).map(|at| match at {
            at if at == case.place => self.row(1, self.subject),
            at => self.other_row(2 * at, case),
        });
        let rows = rows.collect::<Result<Vec<Row>, _>>()?;
        let outputs = match self.run(&rows.iter().collect::<Vec<_>>()) {
            Ok(outputs) => outputs,
            // The engine reacts to this by running smaller batches.
            Err(reason) if reason.starts_with("out of memory") => return Ok(None),
            Err(_) if self.is_refused(&rows, case) => return Ok(None),
            Err(reason) => return Err(Dependence::Failed(reason)),
        };
        let mut together = split(&outputs, case.rows)?;
        let row = together.swap_remove(case.place);
        // Rows of NaN have NaN outputs in any model, so a difference from them proves nothing.
        self.informative |= case.other_rows != OtherRows::NotANumber && together.iter().any(|other| *other != row);
        Ok(Some((row, self.tolerance(&outputs))))
    }

    /// Returns true if the model also fails on a companion row alone, so that a failing batch with that row proves
    /// nothing.
    fn is_refused(&mut self, rows: &[Row], case: Case) -> bool {
        let companion = rows.iter().enumerate().find(|(at, _)| *at != case.place);
        companion.is_some_and(|(_, row)| self.run(&[row]).is_err())
    }

    /// Returns a row beside the row under test.
    fn other_row(&self, index: usize, case: Case) -> Result<Row, Dependence> {
        let mut row = self.row(index, case.other_rows)?;
        if case.shared != Shared::Nothing {
            let subject = self.row(1, self.subject)?;
            let columns = row.iter_mut().zip(subject).enumerate();
            columns.filter(|(input, _)| case.shared.has(*input)).for_each(|(_, (own, shared))| *own = shared);
        }
        Ok(row)
    }

    fn row(&self, index: usize, other_rows: OtherRows) -> Result<Row, Dependence> {
        let how = (&self.reach, &self.runner.placement);
        rows::row(&self.trial, index, other_rows, how).map_err(Dependence::Failed)
    }

    fn run(&mut self, rows: &[&Row]) -> Result<Vec<RunOutput>, String> {
        let columns = rows::batch(rows)?;
        // Wall time would include waiting for a CPU on a busy machine, but the number of runs must not depend on other
        // load.
        let begun = stopwatch::thread_time();
        let (outputs, time) = self.trial.run_on(&columns)?;
        self.spent += time.min(stopwatch::thread_time().saturating_sub(begun));
        Ok(outputs)
    }

    fn tolerance(&self, outputs: &[RunOutput]) -> Tolerance {
        Tolerance::of(self.runner, self.trial.inputs(), outputs)
    }
}

/// Splits the outputs of a batch into the outputs of each row.
fn split(outputs: &[RunOutput], rows: usize) -> Result<Vec<Vec<RowOutput>>, Dependence> {
    let mut split = vec![Vec::with_capacity(outputs.len()); rows];
    for (index, output) in outputs.iter().enumerate() {
        let parts = likeness::rows_of(output, rows).ok_or_else(|| {
            let sizes = &output.sizes;
            Dependence::Shaped(format!("output {index} has the shape {sizes:?} for a batch of {rows}"))
        })?;
        for (row, part) in split.iter_mut().zip(parts) {
            row.push(part);
        }
    }
    Ok(split)
}

#[cfg(test)]
mod tests;
