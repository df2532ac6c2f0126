//! Chooses between one batch of all clients and two batches that take turns.

use std::time::Duration;

use super::AsyncDevice;
use crate::Curve;

/// The items of clients that send their next request after each answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle {
    /// Weight of the items that are queued, running, or about to return.
    pub(super) all: usize,
    /// Weight of the best batch.
    pub(super) best: usize,
    /// Time in which the clients of a batch send their next requests.
    pub(super) turnaround: Duration,
}

/// Gain in the rate that counts as clear: the times of runs and turnarounds are estimates.
const CLEARLY: f64 = 1.05;

impl Circle {
    /// Returns the minimum weight of a batch for the highest rate. Either all items are in one batch, or half of them
    /// are, so that the host copies the inputs of one half while the device runs the other.
    pub(super) fn least(self, device: AsyncDevice, curve: &Curve) -> usize {
        if self.gain_of_one_batch(device, curve) < 1.0 { self.halves()[0].max(1) } else { self.whole() }
    }

    /// Returns true if all items are answered at a clearly higher rate in one batch than in two that take turns.
    pub(super) fn is_faster_whole(self, device: AsyncDevice, curve: &Curve) -> bool {
        self.all <= self.best && self.gain_of_one_batch(device, curve) > CLEARLY
    }

    /// Returns the rate of one batch as a multiple of the rate of two batches that take turns.
    fn gain_of_one_batch(self, device: AsyncDevice, curve: &Curve) -> f64 {
        let (whole, halves) = (self.whole(), self.halves());
        let time = |rows: usize| curve.time(rows).unwrap_or_default();
        let host = |rows: usize| device.inputs + device.launch + device.copies(rows);
        let round = |rows: usize| self.turnaround + device.copies(rows) + device.inputs + time(rows);
        let in_turns: Duration = halves.map(|half| host(half).max(time(half))).iter().sum();
        rate(whole, round(whole)) / rate(halves[0] + halves[1], in_turns.max(round(halves[1])))
    }

    fn whole(self) -> usize {
        self.all.min(self.best)
    }

    fn halves(self) -> [usize; 2] {
        [self.all / 2, self.all - self.all / 2].map(|half| half.min(self.best))
    }
}

/// Shortest period, so that every rate is finite.
const NANOSECOND: f64 = 1e-9;

fn rate(rows: usize, period: Duration) -> f64 {
    rows as f64 / period.as_secs_f64().max(NANOSECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn least(all: usize, row: u64, (launch, fixed, each): (u64, u64, u64)) -> usize {
        let mut curve = Curve::default();
        for rows in [1, 2, 4, 8, 16, 32, 64] {
            curve.record(rows, micros(launch.max(fixed + each * rows as u64)));
        }
        let now = crate::clock::now();
        let device = AsyncDevice { free_at: now, inputs: micros(20), launch: micros(launch), row: micros(row) };
        Circle { all, best: 64, turnaround: micros(50) }.least(device, &curve)
    }

    #[test]
    fn clients_run_together_where_launching_is_the_cost() {
        assert_eq!(least(8, 0, (2_400, 600, 10)), 8);
    }

    #[test]
    fn clients_run_in_two_halves_where_copying_takes_as_long_as_the_run() {
        assert_eq!(least(47, 20, (50, 100, 15)), 23);
    }

    #[test]
    fn a_lone_client_is_a_whole_and_many_fill_batches() {
        assert_eq!(least(1, 20, (50, 100, 15)), 1);
        assert_eq!(least(500, 20, (50, 100, 15)), 64);
    }
}
