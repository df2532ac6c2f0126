//! The measured time of batches by size, and the size worth running.

use std::time::Duration;

/// The measured time of batches of one group, by weight: straight lines between measured weights,
/// and hopeful beyond the largest, so that larger ones are tried.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// By weight, ascending, each weight once.
    points: Vec<Point>,
    /// Batches kept small since the last probe.
    kept_small: u32,
    /// Probes made, to go through the sizes by turns.
    probes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    weight: usize,
    nanos: f64,
    samples: u32,
}

/// Enough to draw a bent line through any range of batch sizes; choosing looks at every point.
const MAX_POINTS: usize = 64;

/// Of so many first samples the least counts: the first runs of a shape compile, allocate and page in.
const FIRST_SAMPLES: u32 = 3;

/// An exponential average over about eight batches: settles in a second, forgets a hiccup as fast.
const SMOOTHING: f64 = 1.0 / 8.0;

/// A sample counts as at most this many times the average, so that one pre-empted run moves it by an
/// eighth; a device that did slow down is still believed within a few batches.
const OUTLIER: f64 = 2.0;

/// Beyond the largest measured weight a row is hoped to take at most this much of what it takes
/// there: so larger batches get tried, and then measured.
const HOPE: f64 = 0.9;

/// Every so many batches that were kept small, one runs larger: a bad sample costs one more batch in
/// 256, under half a percent, and does not rule for ever.
const PROBE_EVERY: u32 = 256;

impl Curve {
    /// Records that a batch of `weight` took `elapsed`.
    pub fn record(&mut self, weight: usize, elapsed: Duration) {
        let weight = weight.max(1);
        let nanos = (elapsed.as_nanos() as f64).max(1.0);
        match self.points.binary_search_by_key(&weight, |point| point.weight) {
            Ok(i) => self.points[i].blend(nanos),
            Err(i) => {
                let samples = 1;
                let point = Point { weight, nanos, samples };
                self.points.insert(i, point);
                self.thin_out();
            }
        }
    }

    /// The estimated time of a batch of `weight`; nothing while nothing was measured.
    #[must_use]
    pub fn time(&self, weight: usize) -> Option<Duration> {
        let nanos = self.nanos(weight)?;
        Some(Duration::from_nanos(nanos as u64))
    }

    /// The estimated time of one row in nanoseconds, in batches of up to `most` rows of the best size.
    /// While larger batches than those measured are possible, they are taken to be no slower: a
    /// refusal for a predicted wait must not rest on too high an estimate.
    #[must_use]
    pub fn row(&self, most: usize) -> Option<f64> {
        let last = self.points.last()?;
        let hoped = last.nanos / most.max(last.weight) as f64;
        Some(self.points.iter().map(Point::row).fold(hoped, f64::min))
    }

    /// The weight up to `most` with the best estimated time per row: a larger batch is chosen only where
    /// it is faster per row. `most` itself while nothing was measured.
    #[must_use]
    pub fn choose(&self, most: usize) -> usize {
        let Some(whole) = self.nanos(most) else {
            return most;
        };
        // Time per row has no minimum inside a straight piece, so only its ends are candidates.
        let measured = self.points.iter().take_while(|point| point.weight < most);
        let best = measured.min_by(|a, b| a.row().total_cmp(&b.row()));
        let whole = whole / most.max(1) as f64;
        best.filter(|best| best.row() < whole).map_or(most, |best| best.weight)
    }

    /// As [`Curve::choose`], but every 256th batch that it would keep small gets another of the
    /// larger sizes instead, to measure it again.
    pub fn pick(&mut self, most: usize) -> usize {
        let chosen = self.choose(most);
        if chosen >= most {
            return chosen;
        }
        self.kept_small += 1;
        if self.kept_small < PROBE_EVERY {
            return chosen;
        }
        self.kept_small = 0;
        self.probes = self.probes.wrapping_add(1);
        self.larger(chosen, most)
    }

    /// One of the measured weights between, or `most`, by turns.
    fn larger(&self, chosen: usize, most: usize) -> usize {
        let between = self.points.iter().map(|point| point.weight);
        let mut between = between.filter(|weight| (chosen + 1..most).contains(weight));
        let turns = between.clone().count() + 1;
        between.nth(self.probes % turns).unwrap_or(most)
    }

    fn nanos(&self, weight: usize) -> Option<f64> {
        let last = *self.points.last()?;
        let i = self.points.partition_point(|point| point.weight < weight);
        let Some(&above) = self.points.get(i) else {
            return Some(last.nanos + self.slope_beyond(last) * (weight - last.weight) as f64);
        };
        // Below the least measured weight nothing says that less work would be faster.
        let Some(&below) = i.checked_sub(1).and_then(|i| self.points.get(i)) else {
            return Some(above.nanos);
        };
        let share = (weight - below.weight) as f64 / (above.weight - below.weight) as f64;
        Some(below.nanos + (above.nanos - below.nanos) * share)
    }

    /// Nanoseconds per further row: as on the last piece, but never so many that no one would try.
    fn slope_beyond(&self, last: Point) -> f64 {
        let before = self.points.iter().rev().nth(1);
        let slope = before.map_or(0.0, |before| (last.nanos - before.nanos) / (last.weight - before.weight) as f64);
        slope.clamp(0.0, last.row() * HOPE)
    }

    /// Forgets the point whose neighbours are nearest to each other, beyond [`MAX_POINTS`]; never an end.
    fn thin_out(&mut self) {
        if self.points.len() <= MAX_POINTS {
            return;
        }
        let ratio = |i: usize| self.points[i + 1].weight as f64 / self.points[i - 1].weight as f64;
        let inner = 1..self.points.len() - 1;
        if let Some(i) = inner.min_by(|a, b| ratio(*a).total_cmp(&ratio(*b))) {
            self.points.remove(i);
        }
    }
}

impl Point {
    fn row(&self) -> f64 {
        self.nanos / self.weight as f64
    }

    fn blend(&mut self, nanos: f64) {
        if self.samples < FIRST_SAMPLES {
            self.samples += 1;
            self.nanos = self.nanos.min(nanos);
        } else {
            let nanos = nanos.min(self.nanos * OUTLIER);
            self.nanos += (nanos - self.nanos) * SMOOTHING;
        }
    }
}
