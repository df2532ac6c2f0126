//! Quality and cost of a run.

use std::time::Duration;

use crate::Run;

/// Quality and cost of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Requests that were served, or were still queued past their target at the end.
    pub requests: u64,
    /// Requests that waited longer than the target.
    pub late: u64,
    /// Late requests that arrived when no replica was ready.
    pub late_at_zero: u64,
    /// Share of the requests that waited no longer than the target.
    pub attainment: f64,
    /// Share of the requests in time in the worst ten minutes.
    pub worst: f64,
    /// Median time in the queue.
    pub p50: Duration,
    /// 95th percentile of the time in the queue.
    pub p95: Duration,
    /// 99th percentile of the time in the queue.
    pub p99: Duration,
    /// Longest time in the queue.
    pub longest: Duration,
    /// GPU time in seconds, including nodes that linger.
    pub gpu_seconds: f64,
    /// Number of replicas that were started.
    pub starts: u32,
    /// Most GPUs in use at once.
    pub peak: u32,
    /// Share of the replicas' time in which they had no request.
    pub idle: f64,
}

/// Length of the stretches of which the worst is reported.
const STRETCH: Duration = Duration::from_secs(600);

/// Least requests of a stretch that counts for the worst one.
const FEWEST: u64 = 10;

impl Score {
    /// Computes the score of a run with this target for the time in the queue.
    #[must_use]
    pub fn new(run: &Run, target: Duration) -> Self {
        let mut waits: Vec<_> = run.waits.iter().map(|w| (w.arrived, w.waited)).collect();
        let waiting = run.waiting.iter().map(|arrived| (*arrived, run.until.saturating_sub(*arrived)));
        waits.extend(waiting.filter(|(_, waited)| *waited > target));
        let (attainment, worst) = shares(&waits, target);
        let late = waits.iter().filter(|(_, waited)| *waited > target).map(|(arrived, _)| arrived);
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

/// Returns true if no replica was ready at this time.
fn is_at_zero(run: &Run, at: Duration) -> bool {
    let next = run.frames.partition_point(|frame| frame.at <= at);
    let last = next.checked_sub(1).and_then(|index| run.frames.get(index));
    last.is_none_or(|frame| frame.ready == 0)
}

/// Returns the share of requests in time, of all and of the worst stretch.
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
    let total = stretches.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if total.0 == 0 {
        return (1.0, 1.0);
    }
    let enough = stretches.iter().filter(|(all, _)| *all >= FEWEST);
    let all = share(total);
    // The result is never better than the overall share, because stretches with too few requests count only there.
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
        // Too few requests for a share of their own.
        let few: Vec<_> = waits(0, [60; 4]).collect();
        assert_eq!(shares(&few, second), (0.0, 0.0));
        // Twelve requests are in time in one stretch; four are late in another, too few to be the worst.
        let good = (0..3).flat_map(|_| waits(0, [0; 4]));
        let mixed: Vec<_> = good.chain(waits(1, [60; 4])).collect();
        assert_eq!(shares(&mixed, second), (0.75, 0.75));
        // A stretch with enough late requests is the worst.
        let late = (0..3).flat_map(|_| waits(1, [60; 4]));
        let good = (0..3).flat_map(|_| waits(0, [0; 4]));
        let halves: Vec<_> = good.chain(late).collect();
        assert_eq!(shares(&halves, second), (0.5, 0.0));
        assert_eq!(shares(&[], second), (1.0, 1.0));
    }
}
