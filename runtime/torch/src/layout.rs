//! Convolutions whose weights are laid out ahead, where a model gains by that.
//!
//! On the processor libtorch lays the weights of a convolution out anew for each batch, and computes what
//! could be part of them (normalisation) apart. A module that is optimised for inference does neither. Most
//! models with long convolutions gain a third by it and some lose, so both are run, and the faster stays.

use std::sync::Arc;
use std::time::Duration;

use weir_protocol::DataType;
use weir_runtime::backend::{Column, ModelSource, Signature};

use crate::element;
use crate::infer::trial::{Rows, Trial, columns};
use crate::module::Module;
use crate::runner::{Outcome, Place, Runner};
use crate::stopwatch;

/// A model that answers a row sooner is left as it is: to optimise and compare takes some tenths of a
/// second, which would double the time until it is ready.
const WORTH_WHILE: Duration = Duration::from_millis(2);

/// Runs that do not count: in the first libtorch compiles, and where it was told to watch that one
/// (`ENABLE_JIT_PROFILING`), in the second again what it saw.
const FIRST_RUNS: usize = 2;

/// Runs of each, by turns, of which the fastest counts: others may have interrupted the rest.
const ROUNDS: usize = 3;

/// Rounds more where the two are so near to each other that whoever else uses the processor decides.
const DOUBTFUL_ROUNDS: usize = 3;

/// How near is too near, as a share.
const DOUBT: f64 = 0.05;

/// How far answers may differ, relative to the largest element of an output: single precision keeps seven
/// digits, and sums in another order lose some of them.
const SAME: f64 = 1e-4;

/// The module to run instead of this one, if any.
pub(crate) fn faster(
    source: &ModelSource,
    runner: &Runner,
    signature: &Signature,
) -> Option<Arc<Module>> {
    let here = matches!(runner.place, Place::Processor);
    if !here || !runner.options.optimize || !runner.module.convolves() {
        return None;
    }
    let rows = match signature.max_batch_size {
        0 => Rows::None,
        _ => Rows::Range(0..1),
    };
    let columns = columns(&signature.inputs, &rows, None).ok()?;
    let tried = compare(source, runner, signature, &columns);
    tried.unwrap_or_else(|reason| {
        tracing::debug!(model = source.name, reason, "runs as it was saved");
        None
    })
}

/// The error says why the two cannot be compared.
fn compare(
    source: &ModelSource,
    runner: &Runner,
    signature: &Signature,
    columns: &[Column],
) -> Result<Option<Arc<Module>>, String> {
    let threads = runner.intra_op_threads;
    let (answers, time) = settled(&trial(source, runner, signature)?, columns, threads)?;
    if time < WORTH_WHILE {
        return Ok(None);
    }
    let module = runner.module.load_optimized(&source.path);
    let other = Runner {
        module: Arc::new(module.map_err(|fault| fault.to_string())?),
        ..runner.clone()
    };
    let (as_saved, optimised) = (
        trial(source, runner, signature)?,
        trial(source, &other, signature)?,
    );
    let (other_answers, other_time) = settled(&optimised, columns, threads)?;
    let (time, other_time) = by_turns([&as_saved, &optimised], [time, other_time], |trial| {
        run(trial, columns, threads).map(|(_, time)| time)
    })?;
    drop(optimised);
    tracing::debug!(
        model = source.name,
        ?time,
        ?other_time,
        "optimised for inference"
    );
    let better = gains(time, other_time) && alike(&answers, &other_answers);
    Ok(better.then_some(other.module))
}

/// The least times of both after further rounds.
fn by_turns(
    trials: [&Trial<'_>; 2],
    [mut time, mut other_time]: [Duration; 2],
    run: impl Fn(&Trial<'_>) -> Result<Duration, String>,
) -> Result<(Duration, Duration), String> {
    let mut round = 1;
    while round < ROUNDS || (round < ROUNDS + DOUBTFUL_ROUNDS && in_doubt(time, other_time)) {
        time = time.min(run(trials[0])?);
        other_time = other_time.min(run(trials[1])?);
        round += 1;
    }
    Ok((time, other_time))
}

fn trial<'a>(
    source: &ModelSource,
    runner: &'a Runner,
    signature: &'a Signature,
) -> Result<Trial<'a>, String> {
    Trial::new(source, runner, &signature.inputs).map_err(|error| error.to_string())
}

/// The answers, and the time of a run after those that do not count.
fn settled(
    trial: &Trial<'_>,
    columns: &[Column],
    threads: i32,
) -> Result<(Vec<Outcome>, Duration), String> {
    for _ in 0..FIRST_RUNS {
        trial.run_on(columns)?;
    }
    run(trial, columns, threads)
}

/// The answers, and what they cost: of one thread the processor time, which others do not lengthen by taking
/// turns with it; of several the time that passed.
fn run(
    trial: &Trial<'_>,
    columns: &[Column],
    threads: i32,
) -> Result<(Vec<Outcome>, Duration), String> {
    let before = stopwatch::thread_time();
    let (outcomes, elapsed) = trial.run_on(columns)?;
    let time = match threads {
        1 => stopwatch::thread_time().saturating_sub(before),
        _ => elapsed,
    };
    Ok((outcomes, time))
}

/// Whether a row is answered as soon. That is enough: with more rows those that gain with one gain more, and
/// hold less memory.
fn gains(before: Duration, after: Duration) -> bool {
    after <= before
}

/// Whether some rounds more might decide otherwise.
fn in_doubt(before: Duration, after: Duration) -> bool {
    let ratio = after.as_secs_f64() / before.as_secs_f64().max(f64::MIN_POSITIVE);
    (ratio - 1.0).abs() < DOUBT
}

fn alike(answers: &[Outcome], others: &[Outcome]) -> bool {
    let mut pairs = answers.iter().zip(others);
    answers.len() == others.len() && pairs.all(|(one, other)| is_same(one, other))
}

fn is_same(one: &Outcome, other: &Outcome) -> bool {
    if one.datatype != other.datatype || one.sizes != other.sizes {
        return false;
    }
    let Some(datatype) = one.datatype.filter(|datatype| is_float(*datatype)) else {
        return one.data == other.data;
    };
    let (one, other) = (
        element::decode(datatype, &one.data),
        element::decode(datatype, &other.data),
    );
    let finite = one.iter().filter(|element| element.is_finite());
    let largest = finite.fold(0.0, |largest: f64, element| largest.max(element.abs()));
    let near = |(left, right): (&f64, &f64)| {
        left == right || (left.is_nan() && right.is_nan()) || (left - right).abs() <= SAME * largest
    };
    one.len() == other.len() && one.iter().zip(&other).all(near)
}

fn is_float(datatype: DataType) -> bool {
    matches!(
        datatype,
        DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn outcome(values: &[f32]) -> Outcome {
        Outcome {
            datatype: Some(DataType::Fp32),
            sizes: vec![values.len() as i64],
            data: Bytes::from_iter(values.iter().flat_map(|value| value.to_le_bytes())),
        }
    }

    #[test]
    fn the_faster_wins_and_what_is_near_is_in_doubt() {
        let ms = Duration::from_millis;
        for (after, wins, doubtful) in [
            (200, true, false),
            (474, true, false),
            (476, true, true),
            (500, true, true),
            (524, false, true),
            (526, false, false),
        ] {
            assert_eq!(gains(ms(500), ms(after)), wins, "{after}");
            assert_eq!(in_doubt(ms(500), ms(after)), doubtful, "{after}");
        }
    }

    #[test]
    fn answers_may_differ_in_their_last_digits_only() {
        let one = [outcome(&[100.0, 0.0, f32::NAN, f32::INFINITY])];
        let near = [outcome(&[100.001, 0.001, f32::NAN, f32::INFINITY])];
        assert!(alike(&one, &one) && alike(&one, &near));
        for far in [
            vec![],
            vec![outcome(&[100.1, 0.0, f32::NAN, f32::INFINITY])],
            vec![outcome(&[100.0, 0.0, 0.0, f32::INFINITY])],
            vec![outcome(&[100.0, 0.0, f32::NAN, 1.0])],
            vec![outcome(&[100.0, 0.0, f32::NAN])],
        ] {
            assert!(!alike(&one, &far), "{far:?}");
        }
    }

    #[test]
    fn numbers_that_are_no_floats_do_not_differ() {
        let whole = |value: i32| Outcome {
            datatype: Some(DataType::Int32),
            sizes: vec![1],
            data: Bytes::copy_from_slice(&value.to_le_bytes()),
        };
        assert!(is_same(&whole(1_000_000), &whole(1_000_000)));
        assert!(!is_same(&whole(1_000_000), &whole(1_000_001)));
    }
}
