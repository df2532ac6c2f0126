//! The least cost for each share of requests in time, by dynamic programming.

use super::Bins;

/// What share of the requests in time costs at least: points from cheap to dear.
#[derive(Clone, Debug, PartialEq)]
pub struct Frontier {
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    attainment: f64,
    gpu_seconds: f64,
}

/// A state's least cost so far, and the requests that come too late with it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Path {
    cost: f64,
    late: f64,
}

/// Steps in which the requests are told that are left to the next bin: all of a bin's are `LEVELS - 1`.
const LEVELS: usize = 9;

/// Prices of a late request, each twice the last: from less than its share of a full batch, at which no replica is
/// worth starting, to more GPU-seconds than any start takes.
const PRICES: usize = 25;

impl Frontier {
    /// Calculates the plans for prices from low to high.
    #[must_use]
    pub fn new(bins: &Bins) -> Self {
        let price = |step: usize| 0.02 * 2_f64.powi(step as i32);
        let points = (0..PRICES).map(|step| cheapest(bins, price(step)));
        Self {
            points: points.collect(),
        }
    }

    /// The GPU-seconds of the cheapest plan in which at least this share (0 to 1) of the requests is in time.
    #[must_use]
    pub fn gpu_seconds(&self, attainment: f64) -> f64 {
        let enough = self.points.iter().filter(|p| p.attainment >= attainment);
        let costs = enough.map(|point| point.gpu_seconds);
        costs.fold(f64::INFINITY, f64::min)
    }
}

/// The plan that costs least when a late request costs `price`.
fn cheapest(bins: &Bins, price: f64) -> Point {
    let most = bins.peak() as usize;
    let start = Path {
        cost: f64::INFINITY,
        late: 0.0,
    };
    let mut states = vec![[start; LEVELS]; most + 1];
    states[0][0].cost = 0.0;
    let mut before = 0;
    let mut total = 0.0;
    // What is left at the end has one more bin.
    for count in bins.counts.iter().copied().chain([0]) {
        scale(&mut states, bins.cold_start);
        serve(&mut states, bins, price, (before, count));
        before = count;
        total += f64::from(count);
    }
    let all = states.iter().flatten();
    let best = all.min_by(|a, b| a.cost.total_cmp(&b.cost)).copied();
    let best = best.unwrap_or(start);
    Point {
        attainment: 1.0 - best.late / f64::max(total, 1.0),
        gpu_seconds: best.cost - price * best.late,
    }
}

/// Any number of replicas can follow any other: each one more costs a start, and each one less nothing.
fn scale(states: &mut [[Path; LEVELS]], cold_start: f64) {
    for more in 1..states.len() {
        let fewer = states[more - 1];
        for (path, mut started) in states[more].iter_mut().zip(fewer) {
            started.cost += cold_start;
            *path = cheaper(*path, started);
        }
    }
    for more in (1..states.len()).rev() {
        let ended = states[more];
        for (path, ended) in states[more - 1].iter_mut().zip(ended) {
            *path = cheaper(*path, ended);
        }
    }
}

/// One bin: what the bin before left goes first, and is late if it is not done now.
fn serve(states: &mut [[Path; LEVELS]], bins: &Bins, price: f64, (before, count): (u32, u32)) {
    let steps = (LEVELS - 1) as f64;
    for (replicas, state) in states.iter_mut().enumerate() {
        let old = *state;
        for path in state.iter_mut() {
            path.cost = f64::INFINITY;
        }
        let capacity = replicas as f64 * bins.capacity;
        for (left, mut path) in old.into_iter().enumerate() {
            if path.cost.is_infinite() {
                continue;
            }
            let waiting = f64::from(before) * left as f64 / steps;
            let late = (waiting - capacity).max(0.0);
            let rest = (capacity - waiting).max(0.0);
            let next = (f64::from(count) - rest).max(0.0);
            path.cost += replicas as f64 * bins.length + price * late;
            path.late += late;
            // Rounded up, so that no plan is better than one that can be done.
            let share = if count > 0 {
                next / f64::from(count)
            } else {
                0.0
            };
            let level = ((share * steps - 1e-9).ceil() as usize).min(LEVELS - 1);
            state[level] = cheaper(state[level], path);
        }
    }
}

fn cheaper(one: Path, other: Path) -> Path {
    if other.cost < one.cost { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::super::{Demand, level_cost};
    use super::*;

    fn bins(counts: &[u32]) -> Bins {
        Bins {
            counts: counts.to_vec(),
            length: 2.0,
            capacity: 10.0,
            cold_start: 10.0,
        }
    }

    #[test]
    fn all_in_time_costs_no_more_than_without_waiting() {
        for counts in [&[0, 25, 3, 0, 0, 0, 0, 0, 0, 7, 31, 8][..], &[5], &[0, 0]] {
            let bins = bins(counts);
            let exact = Frontier::new(&bins).gpu_seconds(1.0);
            let levels = level_cost(&Demand::from(&bins), 2.0, 10.0);
            assert!(exact <= levels + 1e-9, "{exact} {levels}");
        }
    }

    #[test]
    fn a_request_that_can_wait_a_bin_needs_no_second_replica() {
        // Twenty at once: two replicas for one bin, or one for two.
        let frontier = Frontier::new(&bins(&[20, 0, 0]));
        assert_eq!(frontier.gpu_seconds(1.0), 10.0 + 2.0 * 2.0);
    }

    #[test]
    fn fewer_in_time_cost_less() {
        let frontier = Frontier::new(&bins(&[40, 3, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 25]));
        let shares = [0.0, 0.5, 0.9, 0.99, 1.0];
        let costs = shares.map(|share| frontier.gpu_seconds(share));
        assert!(costs.is_sorted(), "{costs:?}");
        assert_eq!(costs[0], 0.0);
    }
}
