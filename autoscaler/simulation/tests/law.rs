//! The law in a simulated world: it keeps the target, returns to zero, and does not oscillate.
#![allow(clippy::unwrap_used, reason = "a test says where it failed")]

use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;
use weir_autoscaler::{Decision, Memory, decide};
use weir_cluster::ScalingPolicy;
use weir_simulation::{Frame, Lengths, Observed, Policy, Run, Service, Shape, Wait, Wave, World};

const SECOND: Duration = Duration::from_secs(1);

/// A world of replicas that serve one request at a time in 100 ms: ten per second.
fn world() -> World {
    let service = Service::Each { time: Duration::from_millis(100), most: 1 };
    World::new(service, 5 * SECOND)
}

fn policy() -> ScalingPolicy {
    ScalingPolicy { min: 0, retention: Some(30 * SECOND), ..ScalingPolicy::default() }
}

/// The law, with a record of its decisions.
struct Law {
    policy: ScalingPolicy,
    memory: Memory,
    decisions: Vec<Decision>,
}

impl Policy for Law {
    fn decide(&mut self, observed: &Observed) -> u32 {
        let decision = decide(&self.policy, &mut self.memory, &observed.sample);
        let replicas = decision.replicas;
        self.decisions.push(decision);
        replicas
    }
}

/// A run, with the decision of each frame.
struct Record {
    run: Run,
    decisions: Vec<Decision>,
}

fn run(world: &World, arrivals: &[Duration], seconds: u32) -> Record {
    run_by(policy(), world, arrivals, seconds)
}

fn run_by(policy: ScalingPolicy, world: &World, arrivals: &[Duration], seconds: u32) -> Record {
    let mut law = Law { policy, memory: Memory::default(), decisions: Vec::new() };
    let run = world.run(arrivals, seconds * SECOND, &mut law);
    Record { run, decisions: law.decisions }
}

/// Returns Poisson arrivals at this rate (per second) within these seconds.
fn poisson(rate: f64, seconds: Range<u32>, seed: u64) -> Vec<Duration> {
    let from = seconds.start * SECOND;
    let steady = Wave { shape: Shape::Square, low: rate, high: rate, period: SECOND };
    let arrivals = steady.arrivals(seconds.end * SECOND - from, seed);
    arrivals.into_iter().map(|at| from + at).collect()
}

impl Record {
    fn frames(&self, from: u32, until: u32) -> impl Iterator<Item = &Frame> {
        let frames = self.run.frames.iter();
        frames.filter(move |frame| (from * SECOND..until * SECOND).contains(&frame.at))
    }

    /// Returns the desired replicas within these seconds, decision by decision.
    fn counts(&self, from: u32, until: u32) -> Vec<u32> {
        self.frames(from, until).map(|frame| frame.desired).collect()
    }

    /// Returns the share of the requests of these seconds that waited no longer than a second.
    fn kept(&self, from: u32, until: u32) -> f64 {
        let waits = self.run.waits.iter();
        let within = waits.filter(|w| (from * SECOND..until * SECOND).contains(&w.arrived));
        let requests: Vec<_> = within.collect();
        let in_time = requests.iter().filter(|wait| wait.waited <= SECOND);
        assert!(!requests.is_empty());
        in_time.count() as f64 / requests.len() as f64
    }

    /// Returns the number of changes between growing and shrinking within these seconds.
    fn turns(&self, from: u32, until: u32) -> usize {
        let counts = self.counts(from, until);
        let steps = counts.windows(2).map(|pair| pair[1].cmp(&pair[0]));
        let steps: Vec<_> = steps.filter(|step| step.is_ne()).collect();
        steps.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    fn most(&self) -> u32 {
        let counts = self.run.frames.iter().map(|frame| frame.desired);
        counts.max().unwrap_or_default()
    }

    /// Returns the desired replicas at this second.
    fn desired_at(&self, second: u32) -> u32 {
        let mut frames = self.run.frames.iter();
        let frame = frames.rfind(|frame| frame.at <= second * SECOND);
        frame.map_or(0, |frame| frame.desired)
    }

    fn ends_at_zero(&self) -> bool {
        let last = self.run.frames.last();
        last.is_some_and(|frame| frame.desired == 0 && frame.ready == 0)
    }

    /// Describes the changes of a run, for a failing test.
    fn story(&self) -> String {
        let mut last = u32::MAX;
        let mut lines = String::new();
        for (frame, decision) in self.run.frames.iter().zip(&self.decisions) {
            if frame.desired != last {
                last = frame.desired;
                lines += &format!("{:>8.1?} queued {}: {decision}\n", frame.at, frame.queued);
            }
        }
        lines
    }
}

#[test]
fn a_square_wave_goes_from_zero_and_back_each_time() {
    let waves = [0, 300, 600];
    let wave = |start: u32| poisson(50.0, start..start + 180, 1);
    let arrivals: Vec<_> = waves.into_iter().flat_map(wave).collect();
    let run = run(&world(), &arrivals, 900);
    assert_eq!(run.run.waits.len(), arrivals.len());
    for start in waves {
        // Two starts in a row are needed: the first replica, then the others for the load.
        let share = run.kept(start + 30, start + 180);
        assert!(share >= 0.99, "{share}\n{}", run.story());
        assert_eq!(run.desired_at(start + 299), 0, "{}", run.story());
    }
    assert!(run.ends_at_zero());
    assert!(run.turns(0, 900) <= 2 * waves.len(), "{}", run.story());
    assert!(run.most() <= 20, "{}", run.story());
}

#[test]
fn irregular_arrivals_are_served_in_time_by_a_steady_number() {
    let arrivals = poisson(40.0, 0..900, 2);
    let run = run(&world(), &arrivals, 900);
    let share = run.kept(60, 900);
    assert!(share >= 0.99, "{share}\n{}", run.story());
    let counts = run.counts(300, 900);
    assert!(counts.iter().all(|count| (5..=8).contains(count)), "{}", run.story());
    let starts = run.run.starts;
    assert!(starts <= 20, "{starts} starts\n{}", run.story());
}

#[test]
fn five_hundred_requests_at_zero_are_one_wake_up() {
    let arrivals = vec![10 * SECOND; 500];
    let run = run(&world(), &arrivals, 300);
    let frames = &run.run.frames;
    let woken = frames.iter().position(|f| f.desired > 0).unwrap();
    assert_eq!((frames[woken].at, frames[woken].desired), (10 * SECOND, 1));
    assert_eq!(run.decisions[woken].reason.label(), "Woken");
    assert_eq!((run.run.waits.len(), run.run.waiting.len()), (500, 0));
    assert!(run.ends_at_zero(), "{}", run.story());
    assert!(run.turns(0, 300) <= 1, "{}", run.story());
    // One replica would need 50 s for these requests.
    let slowest = run.run.waits.iter().map(|wait| wait.waited).max().unwrap();
    assert!(slowest < 20 * SECOND, "{slowest:?}\n{}", run.story());
    assert!(run.most() <= 20, "{}", run.story());
}

#[test]
fn a_long_start_does_not_cause_many_replicas() {
    // Two requests per second need one replica, however many wait until it is ready.
    let world = World::new(world().service, 120 * SECOND);
    let arrivals = poisson(2.0, 0..600, 3);
    let run = run(&world, &arrivals, 600);
    assert!(run.most() <= 3, "{}", run.story());
    assert!(run.kept(300, 600) >= 0.99, "{}", run.story());
}

#[test]
fn batching_replicas_are_assumed_to_run_full_batches() {
    // A batch of eight takes 80 + 8 × 10 ms: 50 per second, but 11 per second one by one.
    let service = Service::Batched { fixed: Duration::from_millis(80), each: Duration::from_millis(10), most: 8 };
    let arrivals = poisson(200.0, 0..600, 4);
    let run = run(&World::new(service, 5 * SECOND), &arrivals, 900);
    assert!(run.kept(60, 600) >= 0.99, "{}", run.story());
    let counts = run.counts(300, 600);
    assert!(counts.iter().all(|count| (4..=7).contains(count)), "{}", run.story());
    assert!(run.ends_at_zero());
}

#[test]
fn a_step_is_followed_at_once_and_left_slowly() {
    let mut arrivals = poisson(5.0, 0..120, 5);
    arrivals.extend(poisson(60.0, 120..240, 6));
    arrivals.extend(poisson(5.0, 240..600, 7));
    let run = run(&world(), &arrivals, 600);
    assert!(run.desired_at(128) >= 7, "{}", run.story());
    assert!(run.desired_at(290) >= 7, "{}", run.story());
    assert!(run.desired_at(599) <= 2, "{}", run.story());
    assert!(run.kept(150, 240) >= 0.99, "{}", run.story());
    // The number rises and falls once. Before and after, five requests per second are about the load of one replica,
    // and sometimes a little more.
    assert!(run.turns(115, 360) <= 1, "{}", run.story());
    assert!(run.run.starts <= 20, "{}", run.story());
}

#[test]
fn a_daily_load_finds_its_replicas_on_the_third_day() {
    let world = World { period: 10 * SECOND, ..World::new(world().service, 60 * SECOND) };
    let begins = |day: u32| day * 86_400 + 9 * 3600;
    let arrivals: Vec<_> =
        (0..3).flat_map(|day| poisson(20.0, begins(day)..begins(day) + 1800, u64::from(day))).collect();
    let run = run(&world, &arrivals, 3 * 86_400);
    let share = |day: u32| run.kept(begins(day), begins(day) + 1800);
    assert!(share(1) < 0.97, "{}\n{}", share(1), run.story());
    assert!(share(2) >= 0.99, "{}\n{}", share(2), run.story());
    // Replicas are ready in time, but not long before.
    let before = run.counts(begins(2) - 7200, begins(2) - 80);
    assert!(before.iter().all(|count| *count == 0), "{}", run.story());
    assert!(run.ends_at_zero(), "{}", run.story());
}

/// An engine that works on 64 answers at once, 20 a second: alone, an answer of mean length takes 1.2 s, among 64 it
/// takes 3.2 s.
fn engine(lengths: Lengths) -> World {
    let (fixed, each) = (Duration::from_millis(1168), Duration::from_micros(31_750));
    World { lengths, replicas: 1, ..World::new(Service::Continuous { fixed, each, most: 64 }, 30 * SECOND) }
}

/// The number of replicas differs by at most one from the number that the engine's metrics usually ask for, and from
/// the number that the load fills. A single decision may ask for one less: an engine that is not full answers sooner,
/// so its capacity looks larger.
#[test]
fn an_engine_gets_the_replicas_that_its_metrics_ask_for() {
    let bimodal = Lengths::Bimodal { share: 0.1, factor: 20.0 };
    for lengths in [Lengths::Equal, Lengths::LogNormal { sigma: 1.0 }, bimodal] {
        let world = engine(lengths);
        for rate in [15.0, 50.0, 120.0] {
            let run = run_by(ScalingPolicy::default(), &world, &poisson(rate, 0..1500, 3), 1500);
            let settled = &run.decisions[900..];
            let mut needs: Vec<_> = settled.iter().map(|decision| decision.terms.need).collect();
            needs.sort_unstable();
            let (asked, filled) = (needs[needs.len() / 2], (rate / world.service.capacity()).ceil() as u32);
            for decision in settled {
                let far = decision.replicas.abs_diff(asked).max(decision.replicas.abs_diff(filled));
                assert!(far <= 1, "{} of {asked} and {filled}, {lengths:?}, {rate}", decision.replicas);
            }
            let is_late = |wait: &&Wait| wait.arrived >= 900 * SECOND && wait.waited > SECOND;
            let late = run.run.waits.iter().filter(is_late).count() as f64 / (600.0 * rate);
            assert!(late < 0.05, "{late} late, {lengths:?}, {rate}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// An even load settles at one number of replicas. If the count of a window lies at a boundary, one more replica
    /// may run at times, but not more often than a replica is kept.
    #[test]
    fn a_steady_load_settles(
        per_second in 1..60_u32,
        service_ms in 20..300_u64,
        most in 1..9_u32,
        cold_start in 0..30_u32,
        batched in any::<bool>(),
    ) {
        let time = Duration::from_millis(service_ms);
        let service = if batched {
            Service::Batched { fixed: time, each: time / 4, most }
        } else {
            Service::Each { time, most }
        };
        let world = World { replicas: 1, ..World::new(service, cold_start * SECOND) };
        let gap = SECOND / per_second;
        let arrivals: Vec<_> = (1..1200 * per_second).map(|i| gap * i).collect();
        let run = run_by(ScalingPolicy::default(), &world, &arrivals, 1200);
        let counts = run.counts(600, 1201);
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        let changes = counts.windows(2).filter(|pair| pair[0] != pair[1]).count();
        prop_assert!(most - least <= 1 && changes <= 20, "{} to {}, {} changes", least, most, changes);
        let waits = run.run.waits.iter();
        let late = waits.filter(|wait| wait.arrived >= 600 * SECOND && wait.waited > SECOND);
        prop_assert_eq!(late.count(), 0, "late with {} to {}", least, most);
    }
}
