//! Estimates when the clients of an answered batch send their next requests.

use std::time::{Duration, Instant};

/// Weight of a new sample in the averages, over about eight batches.
const SMOOTHING: f64 = 1.0 / 8.0;

/// Limit on a turnaround as a multiple of the average, so that a single pause of a client moves the average by one
/// eighth only.
const OUTLIER: f64 = 2.0;

/// Time for which returning items are awaited, as a multiple of the average turnaround. The average is that of a
/// batch's last item, which about every second batch exceeds, but rarely by more than half.
const LONGEST_WAIT: f64 = 1.5;

/// The items that follow the answers of a group's batches, as the next requests of the same clients do.
#[derive(Clone, Debug, Default)]
pub(super) struct Returns {
    cohort: Option<Cohort>,
    turnaround: Option<Duration>,
    /// Average part of a batch's weight that arrived again before the next batch was answered.
    share: Option<f64>,
}

/// The items of the batch that was answered last.
#[derive(Clone, Copy, Debug)]
struct Cohort {
    answered: Instant,
    weight: usize,
    outstanding: usize,
}

/// Items that are expected to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Return {
    pub(super) weight: usize,
    /// Time by which the items have arrived on average.
    pub(super) at: Instant,
    /// Time after which the items are no longer expected.
    pub(super) until: Instant,
}

impl Returns {
    /// Records the arrival of an item.
    pub(super) fn arrived(&mut self, weight: usize, now: Instant) {
        let Some(cohort) = self.cohort.as_mut().filter(|cohort| cohort.outstanding > 0) else {
            return;
        };
        cohort.outstanding = cohort.outstanding.saturating_sub(weight);
        if cohort.outstanding == 0 {
            let sample = now.saturating_duration_since(cohort.answered);
            self.blend_turnaround(sample);
            self.blend_share(1.0);
        }
    }

    /// Records that a batch of this weight was answered.
    pub(super) fn answered(&mut self, weight: usize, now: Instant) {
        if let Some(cohort) = self.cohort.filter(|cohort| cohort.outstanding > 0) {
            self.blend_share(1.0 - cohort.outstanding as f64 / cohort.weight as f64);
        }
        self.cohort = Some(Cohort { answered: now, weight, outstanding: weight });
    }

    /// Returns the items of the batch answered last that have not arrived again yet; `None` if none are expected any
    /// more.
    pub(super) fn outstanding(&self, now: Instant) -> Option<Return> {
        let cohort = self.cohort?;
        let arrived = cohort.weight - cohort.outstanding;
        let expected = self.returning(cohort.weight).saturating_sub(arrived);
        self.after(cohort.answered, expected).filter(|expected| expected.until > now)
    }

    /// Returns the items that are expected after the answer of a running batch, which ends at `end`.
    pub(super) fn of_running(&self, weight: usize, end: Instant) -> Option<Return> {
        self.after(end, self.returning(weight))
    }

    /// Returns the weight of the items of the batch answered last that are still to return.
    pub(super) fn missing(&self) -> usize {
        let Some(cohort) = self.cohort else { return 0 };
        self.returning(cohort.weight).saturating_sub(cohort.weight - cohort.outstanding)
    }

    /// Returns the average time in which the clients of a batch send their next requests.
    pub(super) fn turnaround(&self) -> Option<Duration> {
        self.turnaround
    }

    fn after(&self, answered: Instant, weight: usize) -> Option<Return> {
        let turnaround = self.turnaround.filter(|_| weight > 0)?;
        let until = answered + turnaround.mul_f64(LONGEST_WAIT);
        Some(Return { weight, at: answered + turnaround, until })
    }

    fn returning(&self, weight: usize) -> usize {
        (self.share.unwrap_or_default() * weight as f64).round() as usize
    }

    fn blend_turnaround(&mut self, sample: Duration) {
        self.turnaround = Some(self.turnaround.map_or(sample, |average| {
            let sample = sample.min(average.mul_f64(OUTLIER));
            average.mul_f64(1.0 - SMOOTHING) + sample.mul_f64(SMOOTHING)
        }));
    }

    fn blend_share(&mut self, sample: f64) {
        self.share = Some(self.share.map_or(sample, |share| share + (sample - share) * SMOOTHING));
    }
}
