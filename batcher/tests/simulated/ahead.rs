//! Laws of batches that are started ahead: the decision is as good as the better of two fixed rules.

use crate::simulation::{Ahead, Device, Load, Outcome, Simulation};
use weir_batcher::Policy;

const MOST: usize = 64;

fn devices() -> Vec<Device> {
    let mut devices = Vec::new();
    for (copy, output) in [(20, 20), (200, 100)] {
        for launch in [50, 500, 2_500] {
            for (fixed, row) in [(200, 0), (2_500, 0), (200, 20), (1_000, 100)] {
                devices.push(Device { copy, launch, fixed, row, output });
            }
        }
    }
    devices
}

/// Part of the better reference's throughput that the decision must reach at least.
const RATE: f64 = 0.97;

/// The decision's median latency as a multiple of the better reference's, at most. The margin by which a batch is formed
/// before the device is free takes an eighth of a run, in which requests arrive that miss the batch.
const LATENCY: f64 = 1.1;

fn measure(device: Device, load: Load, ahead: Ahead) -> Outcome {
    let mut simulation = Simulation::new(Policy::new(MOST), device, load, ahead);
    simulation.run(1_000);
    simulation.run(2_000)
}

/// Returns the reason why a reference is better than the decision, if it is.
fn defeat(device: Device, load: Load) -> Option<String> {
    let all = [Ahead::Never, Ahead::Always, Ahead::Decided].map(|ahead| measure(device, load, ahead));
    let [never, always, decided] = &all;
    let slow = decided.rate < never.rate.max(always.rate) * RATE;
    let late = decided.p50 as f64 > never.p50.min(always.p50) as f64 * LATENCY;
    let text =
        |outcome: &Outcome| format!("{:.0}/s p50 {} µs batches of {:.1}", outcome.rate, outcome.p50, outcome.batch);
    (slow || late).then(|| format!("{device:?} {load:?}: never, always, decided: {:?}", all.each_ref().map(text)))
}

fn defeats(loads: impl Fn(Device) -> Vec<Load>) -> Vec<String> {
    let pairs = devices().into_iter().flat_map(|device| loads(device).into_iter().map(move |load| (device, load)));
    pairs.filter_map(|(device, load)| defeat(device, load)).collect()
}

#[test]
fn no_fixed_rule_is_better_for_clients_that_wait_for_their_answers() {
    let loads = |_| {
        let clients = [1, 2, 3, 4, 8, 16, 32, 64, 128].into_iter();
        clients.flat_map(|clients| [50, 150, 500].map(|think| Load::Closed { clients, think })).collect()
    };
    assert_eq!(defeats(loads), [""; 0]);
}

#[test]
fn no_fixed_rule_is_better_for_requests_that_arrive_on_their_own() {
    let loads = |device: Device| {
        let shares = [0.05, 0.2, 0.5, 0.8, 0.95];
        shares.map(|share| Load::Open { rate: device.capacity(MOST) * share }).to_vec()
    };
    assert_eq!(defeats(loads), [""; 0]);
}

/// BERT-base in 16 bits on an H100, as it was measured: each run takes 2.4 ms of the host, whatever its size.
const BERT: Device = Device { copy: 50, launch: 2_400, fixed: 600, row: 10, output: 50 };

#[test]
fn few_clients_share_a_batch_where_launches_are_the_cost() {
    for clients in [2, 4, 8, 16, 32] {
        let load = Load::Closed { clients, think: 150 };
        let [always, decided] = [Ahead::Always, Ahead::Decided].map(|ahead| measure(BERT, load, ahead));
        assert!(always.batch < 0.6 * clients as f64, "{clients} clients, always ahead: {}", always.batch);
        assert!(decided.batch > 0.95 * clients as f64, "{clients} clients: {}", decided.batch);
        assert!(decided.rate > 1.7 * always.rate, "{clients} clients: {} and {}", decided.rate, always.rate);
    }
}

#[test]
fn a_saturated_device_is_never_idle() {
    let device = Device { copy: 200, launch: 50, fixed: 200, row: 20, output: 20 };
    let load = Load::Closed { clients: 256, think: 150 };
    let decided = measure(device, load, Ahead::Decided);
    assert!(decided.rate > 0.99 * device.capacity(MOST), "{} of {}", decided.rate, device.capacity(MOST));
}
