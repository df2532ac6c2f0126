//! The law in a simulated world: is the target kept, does it return to zero, does it hold still.

use std::time::Duration;

use weir_autoscaler::{Frame, Run, Served, Service, World, law, poisson, simulate};
use weir_cluster::ScalingPolicy;

const SECOND: Duration = Duration::from_secs(1);

/// One request at a time, 100 ms each: ten per second.
fn world() -> World {
    World {
        service: Service::Each(Duration::from_millis(100)),
        credits: 1,
        cold_start: 5 * SECOND,
        replicas: 0,
        period: SECOND,
    }
}

fn policy() -> ScalingPolicy {
    ScalingPolicy {
        min: 0,
        retention: Some(30 * SECOND),
        ..ScalingPolicy::default()
    }
}

fn run(world: &World, arrivals: &[Duration], seconds: u32) -> Run {
    simulate(world, arrivals, seconds * SECOND, &mut law(policy()))
}

/// The share of the requests that came within these seconds and waited no longer than a second.
fn kept(run: &Run, from: u32, until: u32) -> f64 {
    let within = |served: &&Served| (from * SECOND..until * SECOND).contains(&served.arrived);
    let requests: Vec<_> = run.served.iter().filter(within).collect();
    let in_time = requests.iter().filter(|served| served.waited <= SECOND);
    assert!(!requests.is_empty());
    in_time.count() as f64 / requests.len() as f64
}

/// How often the number of replicas turned from growing to falling or back within these seconds.
fn turns(run: &Run, from: u32, until: u32) -> usize {
    let within = |frame: &&Frame| (from * SECOND..until * SECOND).contains(&frame.at);
    let frames = run.frames.iter().filter(within);
    let counts: Vec<_> = frames.map(|frame| frame.decision.replicas).collect();
    let steps = counts.windows(2).map(|pair| pair[1].cmp(&pair[0]));
    let steps: Vec<_> = steps.filter(|step| step.is_ne()).collect();
    steps.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

fn most(run: &Run) -> u32 {
    let counts = run.frames.iter().map(|frame| frame.decision.replicas);
    counts.max().unwrap_or_default()
}

fn ends_at_zero(run: &Run) -> bool {
    let last = run.frames.last();
    last.is_some_and(|frame| frame.decision.replicas == 0 && frame.ready == 0)
}

/// The changes of a run, for a failing test.
fn story(run: &Run) -> String {
    let mut last = u32::MAX;
    let mut lines = String::new();
    for frame in &run.frames {
        if frame.decision.replicas != last {
            last = frame.decision.replicas;
            let queued = frame.queued;
            lines += &format!("{:>8.1?} queued {queued}: {}\n", frame.at, frame.decision);
        }
    }
    lines
}

#[test]
fn a_square_wave_goes_from_zero_and_back_each_time() {
    let waves = [0, 300, 600];
    let wave = |start: u32| poisson(50.0, start * SECOND, (start + 180) * SECOND, 1);
    let arrivals: Vec<_> = waves.into_iter().flat_map(wave).collect();
    let run = run(&world(), &arrivals, 900);
    assert_eq!(run.served.len(), arrivals.len());
    for start in waves {
        // Two starts, one after the other: the first to serve at all, the others for the load.
        let share = kept(&run, start + 30, start + 180);
        assert!(share >= 0.99, "{share}\n{}", story(&run));
        let before = run.frames.iter().rfind(|f| f.at < (start + 300) * SECOND);
        assert!(
            before.is_some_and(|f| f.decision.replicas == 0),
            "{}",
            story(&run)
        );
    }
    assert!(ends_at_zero(&run));
    assert!(turns(&run, 0, 900) <= 2 * waves.len(), "{}", story(&run));
    assert!(most(&run) <= 20, "{}", story(&run));
}

#[test]
fn irregular_arrivals_are_served_in_time_by_a_steady_number() {
    let arrivals = poisson(40.0, Duration::ZERO, 900 * SECOND, 2);
    let run = run(&world(), &arrivals, 900);
    let share = kept(&run, 60, 900);
    assert!(share >= 0.99, "{share}\n{}", story(&run));
    let late: Vec<_> = run.frames.iter().filter(|f| f.at > 300 * SECOND).collect();
    let counts = late.iter().map(|frame| frame.decision.replicas);
    let (least, most) = (counts.clone().min().unwrap(), counts.max().unwrap());
    assert!(
        least >= 5 && most <= 8,
        "{least} to {most}\n{}",
        story(&run)
    );
    assert!(run.starts <= 20, "{} starts\n{}", run.starts, story(&run));
}

#[test]
fn five_hundred_at_zero_are_one_wake_up() {
    let arrivals = vec![10 * SECOND; 500];
    let run = run(&world(), &arrivals, 300);
    let woken = run.frames.iter().find(|f| f.decision.replicas > 0).unwrap();
    assert_eq!((woken.at, woken.decision.replicas), (10 * SECOND, 1));
    assert_eq!(woken.decision.reason.label(), "Woken");
    assert_eq!((run.served.len(), run.waiting), (500, 0));
    assert!(ends_at_zero(&run), "{}", story(&run));
    assert!(turns(&run, 0, 300) <= 1, "{}", story(&run));
    // One replica would take 50 s for them.
    let slowest = run.queue_delay.quantile(1.0).unwrap();
    assert!(slowest < 20 * SECOND, "{slowest:?}\n{}", story(&run));
    assert!(most(&run) <= 20, "{}", story(&run));
}

#[test]
fn a_long_start_is_not_answered_by_many_replicas() {
    // Two requests per second need one replica, however many wait until it is up.
    let world = World {
        cold_start: 120 * SECOND,
        ..world()
    };
    let arrivals = poisson(2.0, Duration::ZERO, 600 * SECOND, 3);
    let run = run(&world, &arrivals, 600);
    assert!(most(&run) <= 3, "{}", story(&run));
    assert!(kept(&run, 300, 600) >= 0.99, "{}", story(&run));
}

#[test]
fn replicas_that_batch_are_counted_on_for_full_batches() {
    // 80 + 8 × 10 ms for eight: 50 per second, 11 per second one by one.
    let world = World {
        service: Service::Batched {
            fixed: Duration::from_millis(80),
            each: Duration::from_millis(10),
        },
        credits: 8,
        ..world()
    };
    let arrivals = poisson(200.0, Duration::ZERO, 600 * SECOND, 4);
    let run = run(&world, &arrivals, 900);
    assert!(kept(&run, 60, 600) >= 0.99, "{}", story(&run));
    let settled = run
        .frames
        .iter()
        .filter(|f| (300 * SECOND..600 * SECOND).contains(&f.at));
    let counts: Vec<_> = settled.map(|frame| frame.decision.replicas).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(
        *least >= 4 && *most <= 7,
        "{least} to {most}\n{}",
        story(&run)
    );
    assert!(ends_at_zero(&run));
}

#[test]
fn a_step_is_followed_at_once_and_left_slowly() {
    let mut arrivals = poisson(5.0, Duration::ZERO, 120 * SECOND, 5);
    arrivals.extend(poisson(60.0, 120 * SECOND, 240 * SECOND, 6));
    arrivals.extend(poisson(5.0, 240 * SECOND, 600 * SECOND, 7));
    let run = run(&world(), &arrivals, 600);
    let at = |second: u32| {
        let frame = run.frames.iter().rfind(|f| f.at <= second * SECOND);
        frame.map_or(0, |frame| frame.decision.replicas)
    };
    assert!(at(128) >= 7, "{}", story(&run));
    assert!(at(290) >= 7, "{}", story(&run));
    assert!(at(599) <= 2, "{}", story(&run));
    assert!(kept(&run, 150, 240) >= 0.99, "{}", story(&run));
    // Up, and down once. Before and after, five per second are at times one replica's load and at
    // times a little more than that.
    assert!(turns(&run, 115, 360) <= 1, "{}", story(&run));
    assert!(run.starts <= 20, "{}", story(&run));
}
