//! How well and how cheaply a run served.

use std::time::Duration;

use crate::Run;

/// How well and how cheaply a run served.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Requests that were served, or waited too long at the end.
    pub requests: u64,
    /// Those that waited longer than they may.
    pub late: u64,
    /// Those of them that came when no replica was ready.
    pub late_at_zero: u64,
    /// The share of them that waited no longer than they may.
    pub attainment: f64,
    /// The same share of the worst ten minutes.
    pub worst: f64,
    /// How long half of them waited at most.
    pub p50: Duration,
    /// How long 95 % of them waited at most.
    pub p95: Duration,
    /// How long 99 % of them waited at most.
    pub p99: Duration,
    /// The longest time that one waited.
    pub longest: Duration,
    /// GPU time, nodes that stayed included.
    pub gpu_seconds: f64,
    /// Replicas that were started.
    pub starts: u32,
    /// Most GPUs in use at once.
    pub peak: u32,
    /// The share of the replicas' time in which they did not work.
    pub idle: f64,
}

/// Stretches of which the worst is told.
const STRETCH: Duration = Duration::from_secs(600);

/// Fewer requests than this make no share.
const FEWEST: u64 = 10;

impl Score {
    /// The score of a run in which requests may wait this long.
    #[must_use]
    pub fn new(run: &Run, target: Duration) -> Self {
        let mut waits: Vec<_> = run.waits.iter().map(|w| (w.arrived, w.waited)).collect();
        let waiting = run.waiting.iter();
        let waiting = waiting.map(|arrived| (*arrived, run.until.saturating_sub(*arrived)));
        waits.extend(waiting.filter(|(_, waited)| *waited > target));
        let (attainment, worst) = shares(&waits, target);
        let late = waits.iter().filter(|(_, waited)| *waited > target);
        let late = late.map(|(arrived, _)| arrived);
        let mut times: Vec<_> = waits.iter().map(|(_, waited)| *waited).collect();
        let mut quantile = |share: f64| quantile(&mut times, share);
        let total = run.replica_time + run.node_time;
        Self {
            requests: waits.len() as u64,
            late: late.clone().count() as u64,
            late_at_zero: late.filter(|at| is_at_zero(run, **at)).count() as u64,
            attainment,
            worst,
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            longest: quantile(1.0),
            gpu_seconds: total.as_secs_f64(),
            starts: run.starts,
            peak: run.peak,
            idle: 1.0 - run.busy_time.as_secs_f64() / total.as_secs_f64().max(1e-9),
        }
    }
}

/// Whether no replica was ready at a time.
fn is_at_zero(run: &Run, at: Duration) -> bool {
    let next = run.frames.partition_point(|frame| frame.at <= at);
    let last = next.checked_sub(1).and_then(|index| run.frames.get(index));
    last.is_none_or(|frame| frame.ready == 0)
}

/// The share in time, of all and of the worst stretch.
fn shares(waits: &[(Duration, Duration)], target: Duration) -> (f64, f64) {
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    for (arrived, waited) in waits {
        let index = (arrived.as_secs() / STRETCH.as_secs()) as usize;
        if stretches.len() <= index {
            stretches.resize(index + 1, (0, 0));
        }
        stretches[index].0 += 1;
        stretches[index].1 += u64::from(*waited <= target);
    }
    let share = |(all, kept): (u64, u64)| kept as f64 / all.max(1) as f64;
    let total = stretches.iter();
    let total = total.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if total.0 == 0 {
        return (1.0, 1.0);
    }
    let enough = stretches.iter().filter(|(all, _)| *all >= FEWEST);
    let all = share(total);
    // No better than all: stretches with too few requests count there alone.
    let worst = enough.map(|one| share(*one)).fold(all, f64::min);
    (all, worst)
}

fn quantile(times: &mut [Duration], share: f64) -> Duration {
    let rank = (times.len() as f64 * share).ceil() as usize;
    match rank.checked_sub(1) {
        Some(index) => *times.select_nth_unstable(index).1,
        None => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(stretch: u32, waited: [u64; 4]) -> impl Iterator<Item = (Duration, Duration)> {
        let at = STRETCH * stretch;
        waited.into_iter().map(move |seconds| (at, Duration::from_secs(seconds)))
    }

    #[test]
    fn the_worst_stretch_is_never_better_than_all_of_them() {
        let second = Duration::from_secs(1);
        // Too few for a share of their own.
        let few: Vec<_> = waits(0, [60; 4]).collect();
        assert_eq!(shares(&few, second), (0.0, 0.0));
        // Twelve in time in one stretch, four late in another, too few to be the worst.
        let good = (0..3).flat_map(|_| waits(0, [0; 4]));
        let mixed: Vec<_> = good.chain(waits(1, [60; 4])).collect();
        assert_eq!(shares(&mixed, second), (0.75, 0.75));
        // A stretch with enough of them is the worst.
        let late = (0..3).flat_map(|_| waits(1, [60; 4]));
        let good = (0..3).flat_map(|_| waits(0, [0; 4]));
        let halves: Vec<_> = good.chain(late).collect();
        assert_eq!(shares(&halves, second), (0.5, 0.0));
        assert_eq!(shares(&[], second), (1.0, 1.0));
    }
}
