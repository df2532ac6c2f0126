//! Least cost for each share of requests in time, by dynamic programming.

use super::Bins;

/// Pareto frontier of cost and attainment: points from cheap to expensive.
#[derive(Clone, Debug, PartialEq)]
pub struct Frontier {
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    attainment: f64,
    gpu_seconds: f64,
}

/// Least cost of a state so far, and the late requests on the way there.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Path {
    cost: f64,
    late: f64,
}

/// Number of levels for the requests left to the next bin; the highest level means all requests of the bin.
const LEVELS: usize = 9;

/// Number of prices of a late request, each twice the previous one. They range from less than its share of a full
/// batch, at which no replica is worth starting, to more GPU-seconds than any start takes.
const PRICES: usize = 25;

/// Limit on the steps of the dynamic program: some ten seconds of one core. A day in bins of a second with a hundred
/// replicas takes 2e9.
const MOST_STEPS: f64 = 5e9;

impl Frontier {
    /// Calculates the cheapest plans for increasing prices; `None` if that takes too long.
    #[must_use]
    pub fn new(bins: &Bins) -> Option<Self> {
        let spans = spans(bins);
        let states = (f64::from(bins.peak()) + 1.0) * LEVELS as f64;
        if states * spans.len() as f64 * PRICES as f64 > MOST_STEPS {
            return None;
        }
        let price = |step: usize| 0.02 * 2_f64.powi(step as i32);
        let points = (0..PRICES).map(|step| cheapest(bins, &spans, price(step)));
        Some(Self { points: points.collect() })
    }

    /// Returns the GPU-seconds of the cheapest plan with at least this share (0 to 1) of the requests in time; `None`
    /// if no price makes that many requests worth serving in time.
    #[must_use]
    pub fn gpu_seconds(&self, attainment: f64) -> Option<f64> {
        let enough = self.points.iter().filter(|p| p.attainment >= attainment);
        let costs = enough.map(|point| point.gpu_seconds);
        costs.min_by(f64::total_cmp)
    }
}

/// A bin with requests, or a sequence of bins without any.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    count: u32,
    /// Length of the span in seconds.
    length: f64,
}

/// Returns the bins in order, with empty bins merged. The first empty bin of a sequence stays separate, because it
/// serves requests left from the bin before. The others count as one: a replica that is kept through some of them is
/// kept through all, because stopping and starting within costs more than at their ends.
fn spans(bins: &Bins) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut empty = 0_u32;
    // Requests left at the end have one more bin.
    for count in bins.counts.iter().copied().chain([0]) {
        empty = if count == 0 { empty.saturating_add(1) } else { 0 };
        match spans.last_mut() {
            Some(last) if empty > 2 => last.length += bins.length,
            _ => spans.push(Span { count, length: bins.length }),
        }
    }
    spans
}

/// Returns the cheapest plan if a late request costs `price`.
fn cheapest(bins: &Bins, spans: &[Span], price: f64) -> Point {
    let most = bins.peak() as usize;
    let start = Path { cost: f64::INFINITY, late: 0.0 };
    let mut states = vec![[start; LEVELS]; most + 1];
    states[0][0].cost = 0.0;
    let mut before = 0;
    let mut total = 0.0;
    for span in spans {
        scale(&mut states, bins.cold_start);
        serve(&mut states, bins, price, (before, *span));
        before = span.count;
        total += f64::from(span.count);
    }
    let all = states.iter().flatten();
    let best = all.min_by(|a, b| a.cost.total_cmp(&b.cost)).copied();
    let best = best.unwrap_or(start);
    Point { attainment: 1.0 - best.late / f64::max(total, 1.0), gpu_seconds: best.cost - price * best.late }
}

/// Updates the states for a change of the number of replicas: each additional replica costs a start, and removing one
/// is free.
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

/// Serves one bin. Requests left from the bin before go first, and are late if they are not served now.
fn serve(states: &mut [[Path; LEVELS]], bins: &Bins, price: f64, (before, span): (u32, Span)) {
    let Span { count, length } = span;
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
            path.cost += replicas as f64 * length + price * late;
            path.late += late;
            // Rounded up, so that the result is never better than a feasible plan.
            let share = if count > 0 { next / f64::from(count) } else { 0.0 };
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
    use super::super::levels::{Demand, level_cost};
    use super::*;

    fn least(bins: &Bins, attainment: f64) -> f64 {
        let frontier = Frontier::new(bins).unwrap();
        frontier.gpu_seconds(attainment).unwrap()
    }

    fn bins(counts: &[u32]) -> Bins {
        Bins { counts: counts.to_vec(), length: 2.0, capacity: 10.0, cold_start: 10.0 }
    }

    #[test]
    fn serving_all_in_time_costs_no_more_than_without_waiting() {
        for counts in [&[0, 25, 3, 0, 0, 0, 0, 0, 0, 7, 31, 8][..], &[5], &[0, 0]] {
            let bins = bins(counts);
            let exact = least(&bins, 1.0);
            let levels = level_cost(&Demand::from(&bins), 2.0, 10.0);
            assert!(exact <= levels + 1e-9, "{exact} {levels}");
        }
    }

    #[test]
    fn a_request_that_can_wait_a_bin_needs_no_second_replica() {
        // Twenty requests at once need two replicas for one bin, or one for two.
        assert_eq!(least(&bins(&[20, 0, 0]), 1.0), 10.0 + 2.0 * 2.0);
    }

    #[test]
    fn fewer_requests_in_time_cost_less() {
        let bins = bins(&[40, 3, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 25]);
        let costs = [0.0, 0.5, 0.9, 0.99, 1.0].map(|share| least(&bins, share));
        assert!(costs.is_sorted(), "{costs:?}");
        assert_eq!(costs[0], 0.0);
    }

    #[test]
    fn empty_bins_take_no_time() {
        // One bin at each end, two starts; the bins in between, half a year, count as few.
        let mut counts = vec![0; 8_000_000];
        counts[0] = 7;
        counts[7_999_999] = 7;
        assert_eq!(spans(&bins(&counts)).len(), 5);
        assert_eq!(least(&bins(&counts), 1.0), 2.0 * (10.0 + 2.0));
    }

    #[test]
    fn merged_empty_bins_cost_the_same() {
        for counts in [
            &[7, 0, 0, 0, 0, 7][..],
            &[0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 5, 0, 0, 0, 0],
            &[40, 3, 0, 0, 0, 9, 0, 25],
        ] {
            let bins = bins(counts);
            let one_by_one = counts.iter().chain(&[0]).map(|count| Span { count: *count, length: bins.length });
            let one_by_one: Vec<_> = one_by_one.collect();
            for price in [0.1, 1.0, 4.0, 1000.0] {
                let merged = cheapest(&bins, &spans(&bins), price);
                assert_eq!(merged, cheapest(&bins, &one_by_one, price), "{counts:?}");
            }
        }
    }

    #[test]
    fn a_calculation_of_hours_is_not_started() {
        let few_at_a_time = Bins { capacity: 1e-6, ..bins(&[1000; 100]) };
        assert_eq!(Frontier::new(&few_at_a_time), None);
    }
}
