//! Laws of the queue delay: a batch waits for it only while arrivals make company likely.

use std::time::Duration;

use crate::simulation::{Ahead, Device, Load, Simulation};
use proptest::prelude::*;
use weir_batcher::Policy;

/// The queue delay in microseconds.
const DELAY: u64 = 1_000;

/// A model that runs in a tenth of the delay.
const SHORT: Device = Device { copy: 10, copy_row: 0, launch: 40, fixed: 50, row: 5, output: 10 };

fn simulation(max_weight: usize, device: Device, load: Load) -> Simulation {
    let policy = Policy { delay: Duration::from_micros(DELAY), ..Policy::new(max_weight) };
    Simulation::new(policy, device, load, Ahead::Never)
}

fn waits(latencies: &[u64]) -> usize {
    latencies.iter().filter(|latency| **latency >= DELAY).count()
}

#[test]
fn a_lone_client_soon_waits_almost_never() {
    let mut simulation = simulation(8, SHORT, Load::Closed { clients: 1, think: 100 });
    let first = simulation.run(10).latencies;
    assert_eq!(waits(&first), 4, "{first:?}");
    let later = simulation.run(1_000);
    assert!(waits(&later.latencies) <= 10, "{} of 1000 requests", waits(&later.latencies));
    assert!(later.p50 < 150, "{} µs", later.p50);
}

#[test]
fn clients_that_wait_for_their_answers_run_together_as_soon_as_all_have_asked() {
    let mut simulation = simulation(64, SHORT, Load::Closed { clients: 8, think: 100 });
    simulation.run(100);
    let later = simulation.run(1_000);
    assert!(later.batch > 7.5, "batches of {}", later.batch);
    assert!(later.p50 < DELAY / 2, "{} µs", later.p50);
}

#[test]
fn the_wait_returns_with_the_load() {
    let mut simulation = simulation(64, SHORT, Load::Closed { clients: 1, think: 100 });
    simulation.run(300);
    simulation.begin_load(Load::Closed { clients: 7, think: 100 });
    simulation.run(24);
    let later = simulation.run(80);
    assert!(later.batch > 7.0, "batches of {}", later.batch);
}

#[test]
fn the_wait_returns_with_a_stream_of_requests() {
    let mut simulation = simulation(8, SHORT, Load::Closed { clients: 1, think: 100 });
    simulation.run(300);
    simulation.begin_load(Load::Open { rate: 16e6 / DELAY as f64 });
    simulation.run(24);
    let later = simulation.run(80);
    assert!(later.batch > 7.0, "batches of {}", later.batch);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_lone_client_waits_almost_never_on_any_device(
        copy in 0..500_u64, launch in 0..3_000_u64, fixed in 0..3_000_u64, output in 0..500_u64, think in 0..5_000_u64,
    ) {
        let device = Device { copy, copy_row: 0, launch, fixed, row: 10, output };
        let mut simulation = simulation(16, device, Load::Closed { clients: 1, think });
        simulation.run(10);
        let alone = copy + launch.max(fixed + 10) + output;
        let late = simulation.run(500).latencies.iter().filter(|latency| **latency >= alone + DELAY).count();
        prop_assert!(late <= 7, "{late} of 500 requests waited");
    }

    #[test]
    fn independent_requests_that_fill_batches_within_the_delay_still_do(most in 2..16_usize, surplus in 1.5..4.0_f64) {
        let rate = surplus * most as f64 * 1e6 / DELAY as f64;
        let mut simulation = simulation(most, Device { row: 0, ..SHORT }, Load::Open { rate });
        simulation.run(200);
        let later = simulation.run(1_000);
        prop_assert!(later.batch > 0.9 * most as f64, "batches of {} at {rate}/s", later.batch);
    }

    #[test]
    fn independent_requests_that_do_not_fill_batches_get_nearly_the_whole_delay(company in 1.0..8.0_f64) {
        let mut simulation = simulation(64, SHORT, Load::Open { rate: company * 1e6 / DELAY as f64 });
        simulation.run(200);
        let later = simulation.run(2_000);
        // A batch that always waits has its first request and those that arrive during the delay.
        prop_assert!(later.batch > 0.9 * (1.0 + company), "batches of {} with {company} per delay", later.batch);
    }
}
