//! Chooses between the saved module and the same module optimised for inference, by speed.
//!
//! On the CPU, libtorch converts the layout of a convolution's weights again for each batch, and computes normalisation
//! separately. A module optimised for inference does neither. Most models with long convolutions gain a third and some
//! lose, so both modules are run and the faster one is kept.

use std::sync::Arc;
use std::time::Duration;

use weir_runtime::backend::{Column, ModelSource};

use crate::execution::runner::{Placement, RunOutput, Runner};
use crate::libtorch::element::{self, is_float};
use crate::loading::infer::trial::{Rows, Trial};
use crate::loading::warm_up::RunnableInput;
use crate::module::Module;
use crate::stopwatch;

/// Shortest time per row for which the comparison is worthwhile. Optimising and comparing take some tenths of a second,
/// which would double the time until a faster model is ready.
const MIN_TIME: Duration = Duration::from_millis(2);

/// Number of runs before the measurement: libtorch compiles in the first one, and with `ENABLE_JIT_PROFILING` again in
/// the second.
const WARM_UP_RUNS: usize = 2;

/// Number of measured runs of each module, in turns. Only the fastest counts, because others may have been interrupted.
const ROUNDS: usize = 3;

/// Number of further runs if the times are so close that other load on the CPU would decide.
const EXTRA_ROUNDS: usize = 3;

/// Relative difference below which the times count as too close.
const MIN_DIFFERENCE: f64 = 0.05;

/// Tolerance between the outputs, relative to the largest element: single precision has seven digits, and sums in
/// another order lose some of them.
const TOLERANCE: f64 = 1e-4;

/// Returns the optimised module if it is at least as fast and has the same outputs.
pub(crate) fn faster_module(source: &ModelSource, runner: &Runner, found: &RunnableInput) -> Option<Arc<Module>> {
    let on_cpu = matches!(runner.placement, Placement::Processor);
    // A tensor that the module writes to must not become a constant of the code.
    let writes = runner.module.self_writes().reason().is_some();
    if !on_cpu || !runner.options.optimize || writes || !runner.module.has_convolution() {
        return None;
    }
    let rows = match found.max_batch_size {
        0 => Rows::None,
        _ => Rows::Range(0..1),
    };
    let columns = trial(source, runner, found).ok()?.columns(&rows).ok()?;
    let module = compare(source, runner, found, &columns);
    module.unwrap_or_else(|reason| {
        tracing::debug!(model = source.name, reason, "not optimised for inference");
        None
    })
}

/// Compares both modules. The error says why they could not be compared.
fn compare(
    source: &ModelSource,
    runner: &Runner,
    found: &RunnableInput,
    columns: &[Column],
) -> Result<Option<Arc<Module>>, String> {
    let threads = runner.intra_op_threads;
    let (outputs, time) = warm_up_and_run(&trial(source, runner, found)?, columns, threads)?;
    if time < MIN_TIME {
        return Ok(None);
    }
    let module = runner.module.load_optimized(&source.path);
    let other = Runner { module: Arc::new(module.map_err(|fault| fault.to_string())?), ..runner.clone() };
    let (as_saved, optimised) = (trial(source, runner, found)?, trial(source, &other, found)?);
    let (other_outputs, other_time) = warm_up_and_run(&optimised, columns, threads)?;
    let (time, other_time) = least_times([&as_saved, &optimised], [time, other_time], |trial| {
        run(trial, columns, threads).map(|(_, time)| time)
    })?;
    drop(optimised);
    tracing::debug!(model = source.name, ?time, ?other_time, "compared with the module optimised for inference");
    let better = is_faster(time, other_time) && outputs_match(&outputs, &other_outputs);
    Ok(better.then_some(other.module))
}

/// Runs further rounds, and returns the shortest time of each module.
fn least_times(
    trials: [&Trial<'_>; 2],
    [mut time, mut other_time]: [Duration; 2],
    run: impl Fn(&Trial<'_>) -> Result<Duration, String>,
) -> Result<(Duration, Duration), String> {
    let mut round = 1;
    while round < ROUNDS || (round < ROUNDS + EXTRA_ROUNDS && is_inconclusive(time, other_time)) {
        time = time.min(run(trials[0])?);
        other_time = other_time.min(run(trials[1])?);
        round += 1;
    }
    Ok((time, other_time))
}

fn trial<'a>(source: &'a ModelSource, runner: &'a Runner, found: &'a RunnableInput) -> Result<Trial<'a>, String> {
    let trial = Trial::of(source, runner, &found.inputs, found.fill);
    trial.map_err(|error| error.to_string())
}

/// Returns the outputs and the time of a run after the unmeasured runs.
fn warm_up_and_run(trial: &Trial<'_>, columns: &[Column], threads: i32) -> Result<(Vec<RunOutput>, Duration), String> {
    for _ in 0..WARM_UP_RUNS {
        trial.run_on(columns)?;
    }
    run(trial, columns, threads)
}

/// Returns the outputs and the time of a run. With one thread this is its CPU time, which other load does not lengthen;
/// with several threads it is the wall time.
fn run(trial: &Trial<'_>, columns: &[Column], threads: i32) -> Result<(Vec<RunOutput>, Duration), String> {
    let before = stopwatch::thread_time();
    let (outcomes, elapsed) = trial.run_on(columns)?;
    let time = match threads {
        1 => stopwatch::thread_time().saturating_sub(before),
        _ => elapsed,
    };
    Ok((outcomes, time))
}

/// Returns true if a row takes no longer than before. Equality suffices, because models gain more with larger batches,
/// and take less memory.
fn is_faster(before: Duration, after: Duration) -> bool {
    after <= before
}

/// Returns true if further rounds might change the decision.
fn is_inconclusive(before: Duration, after: Duration) -> bool {
    let ratio = after.as_secs_f64() / before.as_secs_f64().max(f64::MIN_POSITIVE);
    (ratio - 1.0).abs() < MIN_DIFFERENCE
}

fn outputs_match(outputs: &[RunOutput], others: &[RunOutput]) -> bool {
    let mut pairs = outputs.iter().zip(others);
    outputs.len() == others.len() && pairs.all(|(one, other)| is_same(one, other))
}

fn is_same(one: &RunOutput, other: &RunOutput) -> bool {
    if one.datatype != other.datatype || one.sizes != other.sizes {
        return false;
    }
    let Some(datatype) = one.datatype.filter(|datatype| is_float(*datatype)) else {
        return one.data == other.data;
    };
    let (one, other) = (element::decode(datatype, &one.data), element::decode(datatype, &other.data));
    let finite = one.iter().filter(|element| element.is_finite());
    let largest = finite.fold(0.0, |largest: f64, element| largest.max(element.abs()));
    let near = |(left, right): (&f64, &f64)| {
        left == right || (left.is_nan() && right.is_nan()) || (left - right).abs() <= TOLERANCE * largest
    };
    one.len() == other.len() && one.iter().zip(&other).all(near)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weir_protocol::DataType;

    use super::*;

    fn output(values: &[f32]) -> RunOutput {
        RunOutput {
            datatype: Some(DataType::Fp32),
            sizes: vec![values.len() as i64],
            data: Bytes::from_iter(values.iter().flat_map(|value| value.to_le_bytes())),
            path: None,
        }
    }

    #[test]
    fn the_faster_module_wins_and_close_times_are_inconclusive() {
        let ms = Duration::from_millis;
        for (after, faster, inconclusive) in [
            (200, true, false),
            (474, true, false),
            (476, true, true),
            (500, true, true),
            (524, false, true),
            (526, false, false),
        ] {
            assert_eq!(is_faster(ms(500), ms(after)), faster, "{after}");
            assert_eq!(is_inconclusive(ms(500), ms(after)), inconclusive, "{after}");
        }
    }

    #[test]
    fn outputs_may_differ_in_their_last_digits_only() {
        let one = [output(&[100.0, 0.0, f32::NAN, f32::INFINITY])];
        let near = [output(&[100.001, 0.001, f32::NAN, f32::INFINITY])];
        assert!(outputs_match(&one, &one) && outputs_match(&one, &near));
        for far in [
            vec![],
            vec![output(&[100.1, 0.0, f32::NAN, f32::INFINITY])],
            vec![output(&[100.0, 0.0, 0.0, f32::INFINITY])],
            vec![output(&[100.0, 0.0, f32::NAN, 1.0])],
            vec![output(&[100.0, 0.0, f32::NAN])],
        ] {
            assert!(!outputs_match(&one, &far), "{far:?}");
        }
    }

    #[test]
    fn integers_must_be_equal() {
        let whole = |value: i32| RunOutput {
            datatype: Some(DataType::Int32),
            sizes: vec![1],
            data: Bytes::copy_from_slice(&value.to_le_bytes()),
            path: None,
        };
        assert!(is_same(&whole(1_000_000), &whole(1_000_000)));
        assert!(!is_same(&whole(1_000_000), &whole(1_000_001)));
    }
}
