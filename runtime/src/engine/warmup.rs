//! Runs a model before it is ready: first the configuration's samples, then every batch size that will be used. So no
//! client has to wait for slow first runs, and the batcher knows the duration of each size.

mod input;

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_batcher::Batcher;

use super::JobResult;
use crate::backend::{Captured, Instance, LoadError, Overlap, RunMemory, Timing, WarmUp, WarmUpInput};
use crate::error::ServeError;
use crate::model::interface::Interface;
use crate::model::job::Job;

/// The runs before a version is ready.
#[derive(Clone, Debug)]
pub(crate) struct WarmUpPlan {
    /// Samples from `model_warmup`; if one fails, the load fails.
    pub samples: Vec<Sample>,
    /// Runs of every batch size, as far as `budget` allows.
    pub sizes: WarmUp,
    /// Time for the batch sizes of one instance: enough to measure small models completely, and short compared with a
    /// cold start.
    pub budget: Duration,
}

/// One sample of `model_warmup`.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Name of the sample, for errors.
    pub name: String,
    /// Number of times to run the sample.
    pub count: usize,
    /// The request to run.
    pub job: Arc<Job>,
}

/// Runs per batch size. The first run pays for compilation and allocation; the faster of the next two is the measured
/// duration.
const RUNS: usize = 3;

/// Duration above which a batch of several rows is measured only once. The extra cost of a first run of another size
/// (memory, kernels for its shape) is a millisecond or two, which matters little beside such a run. If it makes the
/// size look worse than a smaller one, the size is measured again.
const LONG: Duration = Duration::from_millis(2);

/// Factor of the budget on a device that works asynchronously. On a GPU the first run of each size compiles kernels for
/// 50 to 75 ms, and some ten more runs compare it with a CUDA graph. At these times the seven sizes of ResNet-50 up
/// to 64 rows take about a second. If the budget left out the large sizes, the first clients would pay for them.
const ON_DEVICES: u32 = 3;

/// Ratio to the best cost per row at which the measurement of larger sizes stops. On one core, convolutions get slower
/// once they no longer fit the cache, and larger sizes are slower still.
const HOPELESS: f64 = 1.25;

/// The result of a warm-up.
#[derive(Debug)]
pub(super) struct WarmedUp {
    /// Memory of the largest run; `None` if it was not counted.
    pub(super) memory: Option<RunMemory>,
    /// The reason why requests will probably fail: the device had no memory for a single row. `None` if a row ran, or
    /// if no run was tried.
    pub(super) limitation: Option<String>,
}

/// Runs the plan on a new instance.
pub(super) fn warm_up(
    plan: &WarmUpPlan,
    interface: &Interface,
    instance: &mut dyn Instance,
    batcher: &Batcher<Job, JobResult>,
) -> Result<WarmedUp, LoadError> {
    for sample in &plan.samples {
        for _ in 0..sample.count.max(1) {
            run(interface, instance, &sample.job)
                .map_err(|error| LoadError::Warmup(format!("warm-up sample '{}' failed: {error}", sample.name)))?;
        }
    }
    match &plan.sizes {
        WarmUp::On(inputs) => {
            let budget = match instance.overlap() {
                Overlap::None => plan.budget,
                Overlap::OneAhead => plan.budget * ON_DEVICES,
            };
            Ok(warm_up_on_copy((budget, inputs), interface, instance, batcher))
        }
        WarmUp::Needless => Ok(WarmedUp { memory: instance.run_memory(), limitation: None }),
    }
}

/// Measures the sizes without changing the instance. So the first client meets the state in which the model was saved,
/// or in which the configuration's samples left it.
fn warm_up_on_copy(
    on: (Duration, &[WarmUpInput]),
    interface: &Interface,
    instance: &mut dyn Instance,
    batcher: &Batcher<Job, JobResult>,
) -> WarmedUp {
    match instance.warm_up_copy() {
        Ok(None) => {
            let limitation = measure_sizes(on, interface, instance, batcher);
            WarmedUp { memory: instance.run_memory(), limitation }
        }
        Ok(Some(mut copy)) => {
            // The copy takes memory that requests will have, so its failures predict none of theirs.
            let _ = measure_sizes(on, interface, copy.as_mut(), batcher);
            WarmedUp { memory: copy.run_memory(), limitation: None }
        }
        Err(error) => {
            tracing::warn!(
                model = interface.model,
                %error,
                "skipping warm-up: its runs would change the model's state, and the device has no memory for a copy of the model"
            );
            WarmedUp { memory: instance.run_memory(), limitation: None }
        }
    }
}

/// Returns the limitation of [`WarmedUp`].
fn measure_sizes(
    (budget, inputs): (Duration, &[WarmUpInput]),
    interface: &Interface,
    instance: &mut dyn Instance,
    batcher: &Batcher<Job, JobResult>,
) -> Option<String> {
    let begun = now();
    let (mut ran_any, mut no_room) = (false, None);
    'inputs: for input in inputs {
        let (mut best, mut last, mut ran) = (f64::INFINITY, Duration::ZERO, 0);
        let most = interface.signature.max_batch_size.min(input.most_rows);
        for rows in sizes(most) {
            // Twice the rows take about twice the time. Sizes that are left out are measured when requests use them.
            if begun.elapsed() + last * 2 > budget {
                break 'inputs;
            }
            let Some(job) = input::job(interface, input, rows) else {
                break;
            };
            let left = || budget.saturating_sub(begun.elapsed());
            let elapsed = match measure_size(interface, instance, &job, (best, &left)) {
                Ok(elapsed) => elapsed,
                Err(reason) => {
                    tracing::warn!(model = interface.model, rows, %reason, "a warm-up run failed");
                    if let ServeError::OutOfMemory(reason) = reason {
                        match ran {
                            0 => no_room = Some(reason),
                            _ => batcher.ran_out_of_memory(&job.group, ran),
                        }
                    }
                    break;
                }
            };
            batcher.record(&job.group, rows, elapsed);
            (last, ran, ran_any) = (elapsed, rows, true);
            let per_row = elapsed.as_secs_f64() / rows as f64;
            if per_row > best * HOPELESS {
                break;
            }
            best = best.min(per_row);
        }
    }
    let reason = no_room.filter(|_| !ran_any)?;
    Some(format!(
        "the device had too little memory for one row, so requests may fail ({reason}): free memory on it, and load the \
         model again"
    ))
}

/// Returns the duration of a batch of this size, after the instance has tried to make it faster. A size that looks
/// worse than the `best` cost per row so far is measured again if the time `left` allows.
fn measure_size(
    interface: &Interface,
    instance: &mut dyn Instance,
    job: &Job,
    (best, left): (f64, &dyn Fn() -> Duration),
) -> Result<Duration, ServeError> {
    let elapsed = measure(interface, instance, job)?;
    let captured = match interface.gather(std::slice::from_ref(job)) {
        Ok(batch) => instance.capture(&batch),
        Err(_) => Captured::No,
    };
    // Without a second run, one interruption would make the size look slow for minutes.
    let doubtful = elapsed.as_secs_f64() / job.rows as f64 > best && elapsed <= left();
    match captured {
        Captured::Yes => measure(interface, instance, job),
        Captured::No if doubtful => Ok(measure(interface, instance, job).map_or(elapsed, |again| again.min(elapsed))),
        Captured::No => Ok(elapsed),
    }
}

/// Returns the duration of a run that is not the first, or the reason why the model rejects the input. On a device that
/// works ahead, the inputs are prepared while the previous batch runs, so this time does not count.
fn measure(interface: &Interface, instance: &mut dyn Instance, job: &Job) -> Result<Duration, ServeError> {
    let mut timed = || {
        let started = now();
        let inputs = run(interface, instance, job)?.input;
        let elapsed = started.elapsed();
        Ok::<_, ServeError>(match instance.overlap() {
            Overlap::None => elapsed,
            Overlap::OneAhead => elapsed.saturating_sub(inputs),
        })
    };
    let mut best = timed()?;
    if job.rows > 1 && best > LONG {
        return Ok(best);
    }
    for i in 1..RUNS {
        let elapsed = timed()?;
        best = if i == 1 { elapsed } else { best.min(elapsed) };
        if elapsed > LONG {
            break;
        }
    }
    Ok(best)
}

fn run(interface: &Interface, instance: &mut dyn Instance, job: &Job) -> Result<Timing, ServeError> {
    let batch = interface.gather(std::slice::from_ref(job))?;
    let answer = instance.run(&batch)?;
    let timing = answer.timing;
    interface.check_whole(answer, job.rows, job.length)?;
    Ok(timing)
}

/// Returns 1, 2, 4, … and the largest size; only 1 for a model without a batch dimension.
fn sizes(max_batch_size: usize) -> Vec<usize> {
    let max = max_batch_size.max(1);
    let mut sizes: Vec<usize> =
        std::iter::successors(Some(1), |size| Some(size * 2)).take_while(|size| *size < max).collect();
    sizes.push(max);
    sizes
}

#[expect(clippy::disallowed_methods, reason = "warm-up measures the duration of each batch size")]
fn now() -> Instant {
    Instant::now()
}
