//! Laws of batches that are started ahead: the decision is as good as the better of two fixed rules.

use crate::random::Case;
use crate::simulation::{Ahead, Device, Load, Outcome, Simulation};
use weir_batcher::Policy;

const MOST: usize = 64;

/// Parameters of devices and loads, of which each combination is measured.
struct Grid {
    most: usize,
    /// Times for the inputs of a batch and of each of its rows, and for its outputs.
    copies: &'static [(u64, u64, u64)],
    launches: &'static [u64],
    /// Times of a run, for a batch and for each of its rows.
    runs: &'static [(u64, u64)],
    clients: &'static [usize],
    thinks: &'static [u64],
    /// Rates of requests that arrive on their own, as parts of the device's capacity.
    shares: &'static [f64],
    /// Part of the better reference's throughput that the decision must reach at least.
    rate: f64,
}

/// The combinations for which the constants of the decision were chosen.
const CHOSEN: Grid = Grid {
    most: MOST,
    copies: &[(20, 0, 20), (200, 0, 100), (20, 12, 20)],
    launches: &[50, 500, 2_500],
    runs: &[(200, 0), (2_500, 0), (200, 20), (1_000, 100)],
    clients: &[1, 2, 3, 4, 8, 16, 32, 64, 128],
    thinks: &[50, 150, 500],
    shares: &[0.05, 0.2, 0.5, 0.8, 0.95],
    rate: 0.97,
};

/// Combinations between and beyond the chosen ones, which show that the constants are not fitted to these. The worst
/// combination is 4 % behind. There the host needs longer to prepare and launch a batch than the device needs to run
/// it, and the clients think for as long. Large and small batches then alternate, while equal batches happen to last
/// under a fixed rule.
const HELD_OUT: Grid = Grid {
    most: 48,
    copies: &[(60, 0, 10), (900, 0, 400), (60, 25, 40)],
    launches: &[0, 150, 1_100, 5_000],
    runs: &[(80, 0), (900, 7), (300, 55), (6_000, 3)],
    clients: &[1, 2, 5, 12, 24, 48, 90],
    thinks: &[10, 300, 2_000],
    shares: &[0.1, 0.35, 0.65, 0.9],
    rate: 0.95,
};

impl Grid {
    fn devices(&self) -> Vec<Device> {
        let mut devices = Vec::new();
        for &(copy, copy_row, output) in self.copies {
            for &launch in self.launches {
                let device = |&(fixed, row): &(u64, u64)| Device { copy, copy_row, launch, fixed, row, output };
                devices.extend(self.runs.iter().map(device));
            }
        }
        devices
    }

    fn closed(&self) -> Vec<Load> {
        let clients = self.clients.iter();
        clients.flat_map(|&clients| self.thinks.iter().map(move |&think| Load::Closed { clients, think })).collect()
    }

    fn open(&self, device: Device) -> Vec<Load> {
        self.shares.iter().map(|share| Load::Open { rate: device.capacity(self.most) * share }).collect()
    }

    /// Returns the combinations in which a fixed rule is better than the decision.
    fn defeats(&self, loads: impl Fn(Device) -> Vec<Load>) -> Vec<String> {
        let pairs =
            self.devices().into_iter().flat_map(|device| loads(device).into_iter().map(move |load| (device, load)));
        pairs.filter_map(|(device, load)| defeat((self.most, self.rate), device, load)).collect()
    }
}

/// The decision's median latency as a multiple of the better reference's, at most. The margin by which a batch is
/// formed before the device is free takes an eighth of a run, in which requests arrive that miss the batch.
const LATENCY: f64 = 1.1;

fn measure(most: usize, device: Device, load: Load, ahead: Ahead) -> Outcome {
    let mut simulation = Simulation::new(Policy::new(most), device, load, ahead);
    simulation.run(1_000);
    simulation.run(2_000)
}

/// Returns the reason why a reference is better than the decision, if it is.
fn defeat((most, rate): (usize, f64), device: Device, load: Load) -> Option<String> {
    let all = [Ahead::Never, Ahead::Always, Ahead::Staged].map(|ahead| measure(most, device, load, ahead));
    let [never, always, decided] = &all;
    let slow = decided.rate < never.rate.max(always.rate) * rate;
    let late = decided.p50 as f64 > never.p50.min(always.p50) as f64 * LATENCY;
    let text =
        |outcome: &Outcome| format!("{:.0}/s p50 {} µs batches of {:.1}", outcome.rate, outcome.p50, outcome.batch);
    (slow || late).then(|| format!("{device:?} {load:?}: never, always, decided: {:?}", all.each_ref().map(text)))
}

#[test]
fn no_fixed_rule_is_better_for_clients_that_wait_for_their_answers() {
    assert_eq!(CHOSEN.defeats(|_| CHOSEN.closed()), [""; 0]);
}

#[test]
fn no_fixed_rule_is_better_for_requests_that_arrive_on_their_own() {
    assert_eq!(CHOSEN.defeats(|device| CHOSEN.open(device)), [""; 0]);
}

#[test]
fn no_fixed_rule_is_better_for_clients_of_other_devices() {
    assert_eq!(HELD_OUT.defeats(|_| HELD_OUT.closed()), [""; 0]);
}

#[test]
fn no_fixed_rule_is_better_for_requests_to_other_devices() {
    assert_eq!(HELD_OUT.defeats(|device| HELD_OUT.open(device)), [""; 0]);
}
/// Seeds of the cases by which the decision is judged. The constants and rules were chosen with the seeds 1 to 1000.
const JUDGED: std::ops::Range<u64> = 700_000..700_400;

/// Returns the decision's throughput as a part of the better reference's.
fn share(Case { most, device, load }: Case) -> f64 {
    let [never, always, decided] =
        [Ahead::Never, Ahead::Always, Ahead::Staged].map(|ahead| measure(most, device, load, ahead).rate);
    decided / never.max(always)
}

#[test]
fn the_decision_is_as_good_as_the_better_rule_on_devices_by_chance() {
    let closed: Vec<f64> = JUDGED.map(|seed| share(Case::closed(seed))).collect();
    let below = |share: f64| closed.iter().filter(|of| **of < share).count();
    let mean = closed.iter().map(|share| share.ln()).sum::<f64>() / closed.len() as f64;
    assert!(mean.exp() > 1.15, "{} times the better reference on average", mean.exp());
    assert!(below(0.97) <= closed.len() / 50, "{} of {} are more than 3 % behind", below(0.97), closed.len());
    assert_eq!(below(0.95), 0);
    let open: Vec<f64> = JUDGED.step_by(8).map(|seed| share(Case::open(seed))).collect();
    assert!(open.iter().all(|share| *share > 0.97), "{open:?}");
}

#[test]
fn staging_hides_copies_that_take_as_long_as_the_run() {
    let device = Device { copy: 20, copy_row: 60, launch: 50, fixed: 200, row: 20, output: 20 };
    let load = Load::Closed { clients: 8, think: 100 };
    let [formed, staged] = [Ahead::Decided, Ahead::Staged].map(|ahead| measure(MOST, device, load, ahead));
    assert!(staged.rate > 1.25 * formed.rate, "{} and {} requests a second", staged.rate, formed.rate);
}

/// BERT-base in 16 bits on an H100, as it was measured: each run takes 2.4 ms of the host, whatever its size.
const BERT: Device = Device { copy: 50, copy_row: 0, launch: 2_400, fixed: 600, row: 10, output: 50 };

#[test]
fn few_clients_share_a_batch_where_launches_are_the_cost() {
    for clients in [2, 4, 8, 16, 32] {
        let load = Load::Closed { clients, think: 150 };
        let [always, decided] = [Ahead::Always, Ahead::Decided].map(|ahead| measure(MOST, BERT, load, ahead));
        assert!(always.batch < 0.6 * clients as f64, "{clients} clients, always ahead: {}", always.batch);
        assert!(decided.batch > 0.95 * clients as f64, "{clients} clients: {}", decided.batch);
        assert!(decided.rate > 1.7 * always.rate, "{clients} clients: {} and {}", decided.rate, always.rate);
    }
}

#[test]
fn a_saturated_device_is_never_idle() {
    let device = Device { copy: 200, copy_row: 0, launch: 50, fixed: 200, row: 20, output: 20 };
    let load = Load::Closed { clients: 256, think: 150 };
    let decided = measure(MOST, device, load, Ahead::Decided);
    assert!(decided.rate > 0.99 * device.capacity(MOST), "{} of {}", decided.rate, device.capacity(MOST));
}

/// BERT-base in 16 bits on an H200 with CUDA graphs, as it was measured.
const REPLAYED: Device = Device { copy: 30, copy_row: 2, launch: 60, fixed: 590, row: 32, output: 30 };

/// Two groups of clients that began apart would take turns for ever, under both fixed rules as well.
#[test]
fn clients_that_began_apart_come_together_where_one_batch_is_faster() {
    for (clients, think) in [(4, 150), (8, 250), (16, 200), (32, 150)] {
        let load = Load::Closed { clients, think };
        let fixed = [Ahead::Never, Ahead::Always].map(|ahead| measure(MOST, REPLAYED, load, ahead).rate);
        let half = Load::Closed { clients: clients / 2, think };
        let mut simulation = Simulation::new(Policy::new(MOST), REPLAYED, half, Ahead::Staged);
        simulation.run(10 * clients + clients / 4);
        simulation.begin_load(half);
        simulation.run(1_000);
        let decided = simulation.run(2_000).rate;
        assert!(decided > 1.15 * fixed[0].max(fixed[1]), "{clients} clients: {decided} of {fixed:?}");
    }
}
