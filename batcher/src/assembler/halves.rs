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

impl Circle {
    /// Returns the minimum weight of a batch for the highest rate. Either all items are in one batch, or half of them
    /// are, so that the host copies the inputs of one half while the device runs the other.
    pub(super) fn least(self, device: AsyncDevice, curve: &Curve) -> usize {
        let whole = self.all.min(self.best);
        let halves = [self.all / 2, self.all - self.all / 2].map(|half| half.min(self.best));
        let time = |rows: usize| curve.time(rows).unwrap_or_default();
        let host = |rows: usize| device.inputs + device.launch + device.copies(rows);
        let round = |rows: usize| self.turnaround + device.copies(rows) + device.inputs + time(rows);
        let in_turns: Duration = halves.map(|half| host(half).max(time(half))).iter().sum();
        let in_turns = rate(halves[0] + halves[1], in_turns.max(round(halves[1])));
        if in_turns > rate(whole, round(whole)) { halves[0].max(1) } else { whole }
    }
}

fn rate(rows: usize, period: Duration) -> f64 {
    rows as f64 / period.as_secs_f64().max(f64::MIN_POSITIVE)
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
