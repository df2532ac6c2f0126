//! Growth of the load within the time of a start.

use std::collections::VecDeque;
use std::time::Duration;

/// Distribution of how much higher the load becomes within the time of a start, weighted towards recent times. A
/// replica that is requested now must suffice for the load at the end of its start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Growth {
    /// Histogram of the ratios by their logarithm, for each context; the steps are narrow for small ratios.
    seen: [[f32; STEPS]; CONTEXTS],
    /// Sum of each histogram.
    totals: [f32; CONTEXTS],
    /// Mean of the load over several starts.
    mean: f64,
    /// Slots of the time since a start ago, the latest last.
    slots: VecDeque<Slot>,
    latest: f64,
    /// Length of a slot, and the end of the latest one.
    slot: Duration,
    until: Duration,
}

/// A part of the time of a start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slot {
    /// Context and load at the beginning of the slot.
    context: usize,
    load: f64,
    /// Highest load within the slot.
    highest: f64,
}

/// Number of contexts, which are ranges of the load relative to its mean: a high load seldom grows as much as a low
/// one.
const CONTEXTS: usize = 4;
const BOUNDS: [f64; CONTEXTS - 1] = [0.5, 0.9, 1.2];

const STEPS: usize = 32;

/// Highest logarithm of a ratio in the histogram: a growth to five times as much.
const HIGHEST: f64 = 1.6;

/// Slots in the time of a start.
const SLOTS: usize = 8;

/// Starts after which an observation counts half.
const FORGOTTEN: f64 = 100.0;

impl Growth {
    /// Observes the current load.
    pub(crate) fn observe(&mut self, now: Duration, load: f64, cold_start: Duration) {
        let slot = (cold_start / SLOTS as u32).max(Duration::from_secs(1));
        if slot != self.slot && (slot > self.slot * 5 / 4 || slot < self.slot * 3 / 4) {
            self.slots.clear();
            self.slot = slot;
            self.until = now;
        }
        if now >= self.until + self.slot * SLOTS as u32 {
            self.slots.clear();
            self.until = now;
        }
        while now >= self.until {
            self.until += self.slot;
            self.end_slot();
        }
        self.latest = load;
        if let Some(slot) = self.slots.back_mut() {
            slot.highest = slot.highest.max(load);
        }
    }

    /// Returns the load that was not exceeded within the time of a start in this share of the past, beginning from
    /// `load`; at least `load` itself. A lower load is never predicted to exceed what a higher one grows to.
    pub(crate) fn highest(&self, share: f64, load: f64) -> f64 {
        let bounds = BOUNDS.iter().map(|bound| bound * self.mean);
        let histograms = self.seen.iter().zip(self.totals);
        let contexts = std::iter::once(0.0).chain(bounds).zip(histograms);
        let reached = contexts.skip(self.context(load));
        let grown = reached.map(|(bound, (seen, total))| load.max(bound) * quantile(seen, f64::from(total) * share));
        grown.fold(f64::INFINITY, f64::min).max(load)
    }

    /// Ends the slot. The next slot begins with the load just before, so that the current load does not change the
    /// known past: more load must never lead to a lower prediction.
    fn end_slot(&mut self) {
        if self.slots.len() > SLOTS
            && let Some(first) = self.slots.pop_front()
        {
            let highest = self.slots.iter().map(|slot| slot.highest);
            self.count(first, highest.fold(0.0, f64::max));
        }
        self.mean += (self.latest - self.mean) / (MEAN * SLOTS as f64);
        self.slots.push_back(Slot { context: self.context(self.latest), load: self.latest, highest: 0.0 });
    }

    fn context(&self, load: f64) -> usize {
        let above = BOUNDS.iter().filter(|bound| load > **bound * self.mean);
        above.count()
    }

    fn count(&mut self, from: Slot, highest: f64) {
        if from.load <= 0.0 {
            return;
        }
        let index = (step(highest / from.load).ceil() as usize).min(STEPS - 1);
        let kept = 0.5_f64.powf(1.0 / (FORGOTTEN * SLOTS as f64)) as f32;
        for count in &mut self.seen[from.context] {
            *count *= kept;
        }
        self.seen[from.context][index] += 1.0;
        self.totals[from.context] = self.seen[from.context].iter().sum();
    }
}

/// Returns the ratio that this number of the observed ratios did not exceed, at least 1.
fn quantile(seen: &[f32; STEPS], rank: f64) -> f64 {
    let mut below = 0.0;
    for (index, count) in seen.iter().map(|count| f64::from(*count)).enumerate() {
        if below + count >= rank {
            let within = ((rank - below) / count.max(1e-9)).clamp(0.0, 1.0);
            // The first step holds the times when the load did not grow.
            return if index == 0 { 1.0 } else { ratio(index as f64 - 1.0 + within) };
        }
        below += count;
    }
    ratio(STEPS as f64 - 1.0)
}

/// Returns the ratio at the upper end of a step.
fn ratio(step: f64) -> f64 {
    let share = step / (STEPS - 1) as f64;
    (HIGHEST * share.powi(2)).exp()
}

/// Returns the step of a ratio, not rounded.
fn step(ratio: f64) -> f64 {
    let share = (ratio.ln().max(0.0) / HIGHEST).sqrt();
    share * (STEPS - 1) as f64
}

/// Starts over which the mean is taken.
const MEAN: f64 = 30.0;

impl Default for Growth {
    fn default() -> Self {
        // Prior before any observation: half of the time no growth, and sometimes a sixth.
        let mut seen = [0.0; STEPS];
        seen[0] = 8.0;
        seen[step(1.05).ceil() as usize] = 4.0;
        seen[step(1.15).ceil() as usize] = 4.0;
        Self {
            seen: [seen; CONTEXTS],
            totals: [seen.iter().sum(); CONTEXTS],
            mean: 0.0,
            slots: VecDeque::new(),
            latest: 0.0,
            slot: Duration::ZERO,
            until: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(60);

    /// Returns the predicted highest load, from 10, after 20,000 seconds of this load.
    fn highest(load: impl Fn(u64) -> f64) -> f64 {
        let mut growth = Growth::default();
        for second in 0..20_000 {
            growth.observe(Duration::from_secs(second), load(second), START);
        }
        growth.highest(0.75, 10.0)
    }

    #[test]
    fn a_load_that_never_grew_is_not_predicted_to_grow() {
        let highest = highest(|_| 10.0);
        assert!((10.0..10.1).contains(&highest), "{highest}");
    }

    #[test]
    fn a_growth_by_a_half_within_a_start_is_predicted_again() {
        // The load grows by a half each minute, for four minutes, and then falls back.
        let wave = |second: u64| 10.0 * 1.5_f64.powf((second % 240) as f64 / 60.0);
        let highest = highest(wave);
        assert!((14.0..16.0).contains(&highest), "{highest}");
    }

    #[test]
    fn a_higher_load_is_not_predicted_to_grow_to_less() {
        let mut growth = Growth::default();
        for second in 0..20_000 {
            let load = if second % 600 < 500 { 1.0 } else { 30.0 };
            growth.observe(Duration::from_secs(second), load, START);
        }
        let grown: Vec<_> = (0..400).map(|load| growth.highest(0.9, f64::from(load) / 10.0)).collect();
        assert!(grown.is_sorted(), "{grown:?}");
    }

    #[test]
    fn a_load_that_begins_at_zero_has_no_ratio() {
        let burst = |second: u64| if second % 600 < 500 { 0.0 } else { 10.0 };
        assert!(highest(burst) < 12.0);
    }
}
