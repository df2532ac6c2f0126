//! Compares policies on real traces: `cargo run --release -p weir-simulation --example evaluate -- --help`.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use weir_cluster::{Economy, ScalingPolicy};
use weir_simulation::{Bins, Contender, Frontier, Score, Standard, World};

/// Compares policies on real traces.
#[derive(Parser)]
struct Args {
    /// How long a replica takes to start, in seconds.
    #[arg(long, value_delimiter = ',', default_value = "60")]
    cold_start: Vec<u64>,
    /// The traces, by name; all but the one of five days if not given.
    #[arg(long, value_delimiter = ',')]
    trace: Vec<String>,
    /// The policies, by name.
    #[arg(long, value_delimiter = ',', default_value = "weir,fixed")]
    policy: Vec<String>,
    /// The economy of Weir's own policy.
    #[arg(long, default_value = "balanced")]
    economy: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    println!(
        "{:<15} {:>4} {:<10} {:>7} {:>7} {:>8} {:>10} {:>6} {:>6} {:>7} {:>5} {:>5}",
        "trace",
        "L",
        "policy",
        "in time",
        "worst",
        "p99",
        "GPU-s",
        "x99",
        "xeq",
        "starts",
        "peak",
        "idle"
    );
    for standard in Standard::ALL {
        let is_asked = match args.trace.as_slice() {
            [] => standard != Standard::Worldcup57To61,
            names => names.iter().any(|name| standard.name().starts_with(name)),
        };
        if is_asked {
            compare(&args, standard)?;
        }
    }
    Ok(())
}

fn compare(args: &Args, standard: Standard) -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let workload = standard.load(&folder)?;
    let scaling = ScalingPolicy {
        min: 0,
        queue_delay: workload.target,
        economy: economy(&args.economy)?,
        ..ScalingPolicy::default()
    };
    for seconds in &args.cold_start {
        let cold_start = Duration::from_secs(*seconds);
        let bins = Bins::new(&workload, cold_start);
        let frontier = Frontier::new(&bins);
        for name in &args.policy {
            let contender: Contender = name.parse()?;
            let mut policy = contender.policy(&workload, &scaling);
            let mut world = World::new(workload.service, cold_start);
            world.replicas = contender.at_first(&workload);
            let run = world.run(&workload.arrivals, workload.until, policy.as_mut());
            let score = Score::new(&run, workload.target);
            println!(
                "{:<15} {:>4} {:<10} {:>7.2} {:>7.2} {:>8.2} {:>10.0} {:>6.2} {:>6.2} {:>7} {:>5} {:>5.2}",
                standard.name(),
                seconds,
                name,
                score.attainment * 100.0,
                score.worst * 100.0,
                score.p99.as_secs_f64(),
                score.gpu_seconds,
                score.gpu_seconds / frontier.gpu_seconds(0.99),
                score.gpu_seconds / frontier.gpu_seconds(score.attainment),
                score.starts,
                score.peak,
                score.idle,
            );
        }
    }
    Ok(())
}

fn economy(name: &str) -> Result<Economy, String> {
    match name {
        "economy" => Ok(Economy::Economy),
        "balanced" => Ok(Economy::Balanced),
        "latency" => Ok(Economy::Latency),
        other => Err(format!(
            "--economy {other}: write economy, balanced or latency"
        )),
    }
}
