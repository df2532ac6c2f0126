//! `weir simulate`: estimates the GPUs that requests would have needed, and their time in the queue.

mod json;
mod measured;
mod scenario;
mod starts;
mod words;

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::time::Duration;

use weir_simulation::{Bins, Contender, Frontier, LogOptions, RequestLog, Resolution, Run, Score, Workload, timeline};

use crate::args::SimulateArgs;
use crate::error::CliError;
use crate::error::Exit;
use crate::output::{print_note, print_result};
use scenario::Scenario;

/// Result of one policy with one target.
struct Simulated {
    policy: Contender,
    target: Duration,
    score: Score,
    /// Cost of the GPUs; `None` if no price is set.
    cost: Option<f64>,
    run: Run,
}

/// Prices of one GPU per hour.
#[derive(Clone, Copy, Debug)]
struct Prices {
    gpu: Option<f64>,
    spot: Option<f64>,
}

impl Prices {
    fn new(args: &SimulateArgs) -> Self {
        Self { gpu: args.gpu_price, spot: args.spot_price }
    }

    /// Returns the cost of a run; `None` if no price is set.
    fn cost(self, run: &Run) -> Option<f64> {
        let gpu = self.gpu?;
        let spot = self.spot.unwrap_or(gpu);
        let on_spot = run.spot_time.as_secs_f64();
        let others = (run.replica_time + run.node_time).as_secs_f64() - on_spot;
        Some((others * gpu + on_spot * spot) / 3600.0)
    }
}

/// Simulates each policy with each target and prints the results.
///
/// # Errors
/// [`CliError::Usage`] and [`CliError::Input`] for flags and logs that cannot be used, [`CliError::Invalid`] for
/// invalid YAML, [`CliError::Server`] for a service that does not report its times.
pub(crate) async fn run(args: SimulateArgs) -> Result<Exit, CliError> {
    let arrivals = arrivals(&args)?;
    let scenario = Scenario::new(&args, arrivals).await?;
    let prices = Prices::new(&args);
    // The simulation computes for seconds, so the thread is marked as blocked.
    let simulated = tokio::task::block_in_place(|| simulate(&args.policy, &scenario, prices));
    if let Some(path) = &args.svg {
        draw(path, &simulated)?;
    }
    let report =
        if args.json { json::report(&scenario, &simulated) } else { words::report(&scenario, &simulated).join("\n") };
    print_result(&report)?;
    Ok(Exit::Done)
}

/// Returns the arrival times, from the log or the wave.
fn arrivals(args: &SimulateArgs) -> Result<Vec<Duration>, CliError> {
    let Some(path) = &args.log else {
        return waves(args);
    };
    let options = LogOptions {
        time_column: args.time_column.clone(),
        time_unit: args.time_unit.map(Into::into),
        most_bad: args.max_bad_lines,
    };
    let log = if path == Path::new("-") {
        RequestLog::read(io::stdin().lock(), &options)
    } else {
        let file = File::open(path);
        let file = file.map_err(|error| input(path, format!("cannot be opened: {error}")))?;
        RequestLog::read(BufReader::new(file), &options)
    };
    let name = match path.to_str() {
        Some("-") => Path::new("standard input"),
        Some(_) | None => path,
    };
    let log = log.map_err(|error| input(name, error.to_string()))?;
    warn(path, &log);
    Ok(log.arrivals)
}

/// Prints warnings about skipped lines and about times that were changed or look suspicious.
fn warn(path: &Path, log: &RequestLog) {
    for bad in log.bad.iter().take(SHOWN) {
        print_note(&format!("warning: {}:{}: left out: {}", path.display(), bad.line, bad.problem));
    }
    if log.bad.len() > SHOWN {
        print_note(&format!("warning: {}: {} more lines are left out", path.display(), log.bad.len() - SHOWN));
    }
    match log.resolution {
        Resolution::Seconds => print_note(&format!(
            "note: {}: times are in whole seconds: requests of the same second are spread over it",
            path.display()
        )),
        Resolution::Finer => {}
    }
    if log.is_sampled() {
        print_note(&format!(
            "warning: {}: all times are equally far apart, like samples of a monitor: each line counts as one request, \
             whatever its other columns say",
            path.display()
        ));
    }
}

/// Number of skipped lines that are listed one by one.
const SHOWN: usize = 5;

/// Most requests of a wave, the same number as a log may have.
const MOST: f64 = 50e6;

fn waves(args: &SimulateArgs) -> Result<Vec<Duration>, CliError> {
    let Some(wave) = &args.wave else {
        return Ok(Vec::new());
    };
    let most = wave.low.max(wave.high) * args.length.as_secs_f64();
    if most > MOST || args.length > LONGEST {
        let problem = "the wave has too many requests or takes too long: at most 50 million in 60 days; give a shorter --for, or lower rates";
        return Err(CliError::Usage(problem.to_owned()));
    }
    let arrivals = wave.arrivals(args.length, args.seed);
    if arrivals.is_empty() {
        let problem = "no request comes in the time of --for: give a longer --for, or higher rates";
        return Err(CliError::Usage(problem.to_owned()));
    }
    Ok(arrivals)
}

/// Longest wave. The simulation keeps a state for each second.
const LONGEST: Duration = Duration::from_secs(60 * 24 * 3600);

fn simulate(policies: &[Contender], scenario: &Scenario, prices: Prices) -> Vec<Simulated> {
    let each = scenario.targets.iter().flat_map(|target| {
        let workload = scenario.workload(*target);
        let runs = policies.iter().map(move |policy| (*policy, *target, one(*policy, scenario, &workload)));
        runs.collect::<Vec<_>>()
    });
    each.map(|(policy, target, run)| Simulated {
        policy,
        target,
        score: Score::new(&run, target),
        cost: prices.cost(&run),
        run,
    })
    .collect()
}

fn one(policy: Contender, scenario: &Scenario, workload: &Workload) -> Run {
    let mut world = scenario.world.clone();
    world.replicas = policy.at_first(workload).clamp(world.least, world.most);
    let mut law = policy.policy(workload, &scenario.scaling(workload.target));
    world.run(&workload.arrivals, workload.until, law.as_mut())
}

/// Returns the GPU-seconds of the cheapest plan for this target with the future known; `None` if it takes too long to
/// find.
fn least(scenario: &Scenario, target: Duration) -> Option<f64> {
    let bins = Bins::new(&scenario.workload(target), scenario.world.starts.time);
    Frontier::new(&bins)?.gpu_seconds(scenario.scaling.quantile)
}

fn draw(path: &Path, simulated: &[Simulated]) -> Result<(), CliError> {
    let target = simulated.first().map_or(Duration::ZERO, |first| first.target);
    let shown = simulated.iter().filter(|one| one.target == target);
    let runs: Vec<_> = shown.map(|one| (one.policy.to_string(), one.run.clone())).collect();
    let svg = timeline(&runs, target);
    std::fs::write(path, svg).map_err(|e| CliError::io(format!("cannot write {}", path.display()), e))
}

fn input(file: &Path, reason: String) -> CliError {
    CliError::Input { file: file.to_owned(), reason }
}
