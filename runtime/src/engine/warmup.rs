//! Runs before readiness: the configuration's samples, then every batch size that will be used, so
//! that no client pays for first runs and the batcher knows what each size costs.

mod input;

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_batcher::Batcher;

use super::JobResult;
use crate::backend::{Instance, LoadError, WarmUp, WarmUpInput};
use crate::interface::Interface;
use crate::job::Job;

/// The runs before a version is ready.
#[derive(Clone, Debug)]
pub(crate) struct WarmUpPlan {
    /// From `model_warmup`: must succeed, or the load fails.
    pub samples: Vec<Sample>,
    /// Runs of every batch size as well, as far as `budget` goes.
    pub sizes: WarmUp,
    /// Time for the sizes of one instance: enough for small models to be measured whole, and never
    /// what a cold start waits for.
    pub budget: Duration,
}

/// One sample of `model_warmup`.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Its name, for the error.
    pub name: String,
    /// Number of times to run it.
    pub count: usize,
    /// The request to run.
    pub job: Arc<Job>,
}

/// Runs per batch size: the first pays for compilation and allocation, the better of the next two
/// is the cost.
const RUNS: usize = 3;

/// Beside a run of this length what a first run of another size pays for is no more than that again (memory, kernels
/// laid out for its shape: a millisecond or two), and once is enough; if that makes the size look worse than a smaller
/// one, it is measured again.
const LONG: Duration = Duration::from_millis(2);

/// A size whose cost per row is this much worse than the best ends the search: on one core,
/// convolutions fall off the cache somewhere, and what comes after is worse still.
const HOPELESS: f64 = 1.25;

/// Runs the plan on a new instance.
pub(super) fn warm_up(
    plan: &WarmUpPlan,
    interface: &Interface,
    instance: &mut dyn Instance,
    batcher: &Batcher<Job, JobResult>,
) -> Result<(), LoadError> {
    for sample in &plan.samples {
        for _ in 0..sample.count.max(1) {
            run(interface, instance, &sample.job)
                .map_err(|error| LoadError::Warmup(format!("warm-up sample '{}' failed: {error}", sample.name)))?;
        }
    }
    match &plan.sizes {
        WarmUp::On(inputs) => rehearse((plan.budget, inputs), interface, instance, batcher),
        WarmUp::Needless => {}
    }
    Ok(())
}

/// Measures the sizes without a trace in the instance: the first client meets the state that the model was saved in,
/// or that the configuration's samples left it in.
fn rehearse(
    on: (Duration, &[WarmUpInput]),
    interface: &Interface,
    instance: &mut dyn Instance,
    batcher: &Batcher<Job, JobResult>,
) {
    match instance.rehearsal() {
        Ok(None) => measure_sizes(on, interface, instance, batcher),
        Ok(Some(mut copy)) => measure_sizes(on, interface, copy.as_mut(), batcher),
        Err(error) => tracing::warn!(
            model = interface.model,
            %error,
            "not warmed up: its runs change the model, and there is no room for a copy to run"
        ),
    }
}

fn measure_sizes(
    (budget, inputs): (Duration, &[WarmUpInput]),
    interface: &Interface,
    instance: &mut dyn Instance,
    batcher: &Batcher<Job, JobResult>,
) {
    let begun = now();
    for input in inputs {
        let (mut best, mut last) = (f64::INFINITY, Duration::ZERO);
        let most = interface.signature.max_batch_size.min(input.most_rows);
        for rows in sizes(most) {
            // Twice the rows take about twice the time. What is left out is measured at work.
            if begun.elapsed() + last * 2 > budget {
                return;
            }
            let Some(job) = input::job(interface, input, rows) else {
                break;
            };
            let elapsed = match measure(interface, instance, &job) {
                Ok(elapsed) => elapsed,
                Err(reason) => {
                    tracing::warn!(model = interface.model, rows, reason, "a warm-up run of these rows fails");
                    break;
                }
            };
            let left = budget.saturating_sub(begun.elapsed());
            // One run that was interrupted would speak against its size for minutes.
            let doubtful = elapsed.as_secs_f64() / rows as f64 > best && elapsed <= left;
            let again = doubtful.then(|| measure(interface, instance, &job).ok());
            let elapsed = again.flatten().map_or(elapsed, |again| again.min(elapsed));
            batcher.record(&job.group, rows, elapsed);
            last = elapsed;
            let per_row = elapsed.as_secs_f64() / rows as f64;
            if per_row > best * HOPELESS {
                break;
            }
            best = best.min(per_row);
        }
    }
}

/// Time of a run that is not the first, or why the model rejects the input.
fn measure(interface: &Interface, instance: &mut dyn Instance, job: &Job) -> Result<Duration, String> {
    let mut timed = || {
        let started = now();
        run(interface, instance, job)?;
        Ok::<_, String>(started.elapsed())
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

fn run(interface: &Interface, instance: &mut dyn Instance, job: &Job) -> Result<(), String> {
    let batch = interface.gather(std::slice::from_ref(job)).map_err(|error| error.to_string())?;
    let answer = instance.run(&batch).map_err(|error| error.to_string())?;
    let checked = interface.check_whole(answer, job.rows, job.length);
    checked.map_err(|error| error.to_string())
}

/// 1, 2, 4, … and the largest; one run for a model without batch dimension.
fn sizes(max_batch_size: usize) -> Vec<usize> {
    let max = max_batch_size.max(1);
    let mut sizes: Vec<usize> =
        std::iter::successors(Some(1), |size| Some(size * 2)).take_while(|size| *size < max).collect();
    sizes.push(max);
    sizes
}

#[expect(clippy::disallowed_methods, reason = "warm-up measures what each batch size costs")]
fn now() -> Instant {
    Instant::now()
}
