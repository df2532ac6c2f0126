//! Measures the control law: `cargo run --release -p weir-simulation --example decide`.
//!
//! The samples of each trace are recorded in a simulated run. A thousand services then replay them, each one from its
//! own beginning, so that the services are in different states and the memory of a service is seldom in the cache. As
//! in the autoscaler, a sample is made just before its decision.
//! The check sum covers every decision of every trace: a change that only makes the law faster must not change it.

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

use weir_autoscaler::{Coverage, Load, Memory, Replicas, Sample, decide};
use weir_cluster::{Activity, ScalingPolicy};
use weir_simulation::{Observed, Policy, Standard, WeirPolicy, Workload, World};

/// Number of services for which each second is decided.
const SERVICES: usize = 1000;

/// Seconds that each service replays before the measurements, and in each of them.
const WARM_UP: usize = 1200;
const MEASURED: usize = 300;

/// Start time of replicas in the simulated runs.
const COLD_START: Duration = Duration::from_secs(60);

/// Traces that are replayed. The trace of five days only repeats days like the one of worldcup-61.
const TRACES: [Standard; 5] =
    [Standard::AzureCode, Standard::AzureConv, Standard::Mooncake, Standard::Servegen, Standard::Worldcup61];

/// Weir's policy, which keeps the samples that it received and a check sum of its decisions.
struct Recorder {
    law: WeirPolicy,
    samples: Vec<Sample>,
    sum: DefaultHasher,
}

impl Policy for Recorder {
    fn decide(&mut self, observed: &Observed) -> u32 {
        self.samples.push(observed.sample.clone());
        let replicas = self.law.decide(observed);
        format!("{:?}", self.law.last()).hash(&mut self.sum);
        replicas
    }
}

/// A service, and its position among the samples of its trace.
struct Replayed {
    memory: Memory,
    trace: usize,
    next: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let mut traces = Vec::new();
    for standard in TRACES {
        let workload = standard.load(&folder)?;
        let policy = policy(&workload);
        let recorder = record(&workload, &policy);
        println!(
            "{:<12} {:>6} decisions, check sum {:016x}",
            standard.name(),
            recorder.samples.len(),
            recorder.sum.finish()
        );
        traces.push((policy, recorder.samples));
    }
    let mut services: Vec<_> = (0..SERVICES).map(|number| begin(number, &traces)).collect();
    for _ in 0..WARM_UP {
        second(&mut services, &traces, SERVICES);
    }
    for loaded in [SERVICES, SERVICES / 5, 0] {
        let mut took: Vec<_> = (0..MEASURED).map(|_| second(&mut services, &traces, loaded)).collect();
        took.sort_unstable();
        println!(
            "a second of {SERVICES} services, {loaded} of them with load: median {:.3} ms, least {:.3} ms",
            took[MEASURED / 2].as_secs_f64() * 1e3,
            took[0].as_secs_f64() * 1e3,
        );
    }
    Ok(())
}

fn policy(workload: &Workload) -> ScalingPolicy {
    ScalingPolicy { min: 0, queue_delay: workload.target, ..ScalingPolicy::default() }
}

fn record(workload: &Workload, policy: &ScalingPolicy) -> Recorder {
    let law = WeirPolicy::new(policy.clone());
    let mut recorder = Recorder { law, samples: Vec::new(), sum: DefaultHasher::new() };
    World::new(workload.service, COLD_START).run(&workload.arrivals, workload.until, &mut recorder);
    recorder
}

/// Returns the service with this number, at a position of its own.
fn begin(number: usize, traces: &[(ScalingPolicy, Vec<Sample>)]) -> Replayed {
    let trace = number % traces.len();
    let next = number * 7919 % (traces[trace].1.len() - WARM_UP - 3 * MEASURED);
    Replayed { memory: Memory::default(), trace, next }
}

/// Decides once for each service, of which only some have load, and returns how long the decisions took.
#[expect(clippy::disallowed_methods, reason = "the example measures time")]
fn second(services: &mut [Replayed], traces: &[(ScalingPolicy, Vec<Sample>)], loaded: usize) -> Duration {
    let mut took = Duration::ZERO;
    for (number, service) in services.iter_mut().enumerate() {
        let (policy, samples) = &traces[service.trace];
        let recorded = &samples[service.next];
        let sample = if number < loaded { recorded.clone() } else { idle(recorded.at) };
        let began = Instant::now();
        let decision = decide(policy, &mut service.memory, &sample);
        took += began.elapsed();
        std::hint::black_box(decision);
        service.next += 1;
    }
    took
}

/// Returns the sample of a service at zero replicas.
fn idle(at: Duration) -> Sample {
    Sample {
        at,
        coverage: Coverage::Complete,
        load: Load { span: Duration::from_secs(1), activity: Activity::default() },
        replicas: Replicas { cold_start: COLD_START, ..Replicas::default() },
    }
}
