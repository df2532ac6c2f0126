//! Compares policies on real traces: `cargo run --release -p weir-simulation --example evaluate -- --help`.

mod goals;
mod page;
mod results;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use clap::Parser;
use weir_cluster::{Economy, ScalingPolicy};
use weir_simulation::{Bins, Contender, Frontier, Score, Standard, Workload, World};

use results::Outcome;

/// Compares policies on real traces.
#[derive(Parser)]
struct Args {
    /// Time that a replica takes to start, in seconds; several are compared.
    #[arg(long, value_delimiter = ',', default_value = "60")]
    cold_start: Vec<u64>,
    /// Traces, by the beginning of their names; by default all but the one of five days.
    #[arg(long, value_delimiter = ',')]
    trace: Vec<String>,
    /// Policies, by name.
    #[arg(long, value_delimiter = ',', default_value = "weir,fixed")]
    policy: Vec<Contender>,
    /// Economy of Weir's own policy: economy, balanced or latency.
    #[arg(long, default_value = "balanced")]
    economy: String,
    /// Compare all policies on all traces, with starts of 10, 60 and 180 s, and write results and charts below this
    /// folder.
    #[arg(long, value_name = "ROOT")]
    write: Option<PathBuf>,
}

/// Start times of the written results, in seconds.
const COLD_STARTS: [u64; 3] = [10, 60, 180];

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    if let Some(root) = &args.write {
        let all = compare(&Standard::ALL, &COLD_STARTS, &Contender::ALL, Economy::Balanced)?;
        return page::write(root, &all);
    }
    let traces: Vec<_> = Standard::ALL.into_iter().filter(|one| is_asked(*one, &args)).collect();
    let economy = economy(&args.economy)?;
    let all = compare(&traces, &args.cold_start, &args.policy, economy)?;
    println!("{}", Outcome::HEAD);
    for outcome in &all {
        println!("{}", outcome.row());
    }
    Ok(())
}

fn is_asked(standard: Standard, args: &Args) -> bool {
    match args.trace.as_slice() {
        [] => standard != Standard::Worldcup57To61,
        names => names.iter().any(|name| standard.name().starts_with(name)),
    }
}

fn economy(name: &str) -> Result<Economy, String> {
    match name {
        "economy" => Ok(Economy::Economy),
        "balanced" => Ok(Economy::Balanced),
        "latency" => Ok(Economy::Latency),
        other => Err(format!("--economy {other}: write economy, balanced or latency")),
    }
}

/// One simulation to run.
struct Job<'a> {
    workload: &'a Workload,
    frontier: &'a Frontier,
    standard: Standard,
    cold_start: Duration,
    policy: Contender,
}

/// Simulates every policy on every trace with every start time, in this order.
fn compare(
    traces: &[Standard],
    cold_starts: &[u64],
    policies: &[Contender],
    economy: Economy,
) -> Result<Vec<Outcome>, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let mut outcomes = Vec::new();
    for standard in traces {
        let workload = standard.load(&folder)?;
        for seconds in cold_starts {
            let cold_start = Duration::from_secs(*seconds);
            let frontier = Frontier::new(&Bins::new(&workload, cold_start));
            let frontier = frontier.ok_or("the least cost takes too long to calculate")?;
            let jobs = policies.iter().map(|policy| Job {
                workload: &workload,
                frontier: &frontier,
                standard: *standard,
                cold_start,
                policy: *policy,
            });
            outcomes.extend(run(jobs.collect(), economy));
        }
    }
    Ok(outcomes)
}

/// Runs the jobs on all cores, and returns their outcomes in order.
fn run(jobs: Vec<Job<'_>>, economy: Economy) -> Vec<Outcome> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = Mutex::new(jobs.iter().enumerate());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((index, job)) = next.lock().ok().and_then(|mut jobs| jobs.next()) {
                    let outcome = simulate(job, economy);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, outcome));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn simulate(job: &Job<'_>, economy: Economy) -> Outcome {
    let workload = job.workload;
    let scaling = ScalingPolicy { min: 0, queue_delay: workload.target, economy, ..ScalingPolicy::default() };
    let mut policy = job.policy.policy(workload, &scaling);
    let mut world = World::new(workload.service, job.cold_start);
    world.replicas = job.policy.at_first(workload);
    let run = world.run(&workload.arrivals, workload.until, policy.as_mut());
    let score = Score::new(&run, workload.target);
    let times = |attainment| {
        let least = job.frontier.gpu_seconds(attainment);
        least.map_or(0.0, |least| score.gpu_seconds / least)
    };
    Outcome {
        trace: job.standard,
        cold_start: job.cold_start.as_secs(),
        policy: job.policy,
        score,
        times: times(0.99),
        times_at_equal: times(score.attainment),
    }
}
