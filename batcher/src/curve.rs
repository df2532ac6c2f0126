//! Measured time of batches by size, and the choice of the best size.

use std::time::Duration;

/// The measured time of a group's batches as a function of weight. It is linear between measured weights, and
/// optimistic beyond the largest one, so that larger batches are tried.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Measured points by ascending weight, one for each weight.
    points: Vec<Point>,
    /// Number of batches kept small since the last probe.
    kept_small: u32,
    /// Number of batches to keep small until the next probe.
    pause: u32,
    /// Number of probes made, which selects the next size to probe in rotation.
    probes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    weight: usize,
    nanos: f64,
    samples: u32,
}

/// Maximum number of points: enough for a curve over any range of batch sizes, and few enough to look at all of them
/// for each choice.
const MAX_POINTS: usize = 64;

/// Number of samples at the beginning that are not averaged: the smallest of them counts, because the first runs of a
/// shape compile, allocate and page in.
const FIRST_SAMPLES: u32 = 3;

/// Weight of a new sample in the exponential average over about eight batches: it settles within a second, and recovers
/// from an outlier as fast.
const SMOOTHING: f64 = 1.0 / 8.0;

/// Limit on a sample as a multiple of the average. A single pre-empted run then moves the average by one eighth, but a
/// device that has really become slower is still followed within a few batches.
const OUTLIER: f64 = 2.0;

/// Assumed maximum time of a row beyond the largest measured weight, relative to the time there. The optimism makes
/// larger batches run, so that they are measured.
const OPTIMISM: f64 = 0.9;

/// Number of batches kept small until a larger one runs, after a size was measured for the first time. The first run of a
/// shape compiles and allocates: on a GPU it took 50 ms instead of one, so that the size looked worse than it is.
const FIRST_PAUSE: u32 = 16;

/// Most batches kept small until one runs larger; each probe doubles the number up to this one. A bad sample then costs
/// one batch in 256, less than half a percent, and its effect does not last.
const LONGEST_PAUSE: u32 = 256;

/// The size of the next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The best size by the measurements.
    Best(usize),
    /// A larger size, to measure it again.
    Probe(usize),
}

impl Default for Curve {
    fn default() -> Self {
        Self { points: Vec::new(), kept_small: 0, pause: FIRST_PAUSE, probes: 0 }
    }
}

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
                self.pause = FIRST_PAUSE;
            }
        }
    }

    /// Returns the estimated time of a batch of `weight`; `None` if nothing was measured.
    #[must_use]
    pub fn time(&self, weight: usize) -> Option<Duration> {
        let nanos = self.nanos(weight)?;
        Some(Duration::from_nanos(nanos as u64))
    }

    /// Returns the estimated time of one row in nanoseconds, in batches of the best size up to `most` rows. A batch
    /// larger than all measured ones is assumed to take no longer than the largest measured one, because a request must
    /// not be refused by too high an estimate. Returns `None` if nothing was measured.
    #[must_use]
    pub fn row(&self, most: usize) -> Option<f64> {
        let last = self.points.last()?;
        let hoped = last.nanos / most.max(last.weight) as f64;
        Some(self.points.iter().map(Point::row).fold(hoped, f64::min))
    }

    /// Returns the weight up to `most` with the best estimated time per row. A larger batch is chosen only if it is
    /// faster per row. Returns `most` if nothing was measured.
    #[must_use]
    pub fn choose(&self, most: usize) -> usize {
        let Some(whole) = self.nanos(most) else {
            return most;
        };
        // The time per row has no minimum within a linear piece, so only the end points are candidates.
        let measured = self.points.iter().take_while(|point| point.weight < most);
        let best = measured.min_by(|a, b| a.row().total_cmp(&b.row()));
        let whole = whole / most.max(1) as f64;
        best.filter(|best| best.row() < whole).map_or(most, |best| best.weight)
    }

    /// Returns the weight up to `most` that [`Curve::pick`] picks next: the one of [`Curve::choose`], or now and then
    /// one of the larger sizes instead.
    #[must_use]
    pub fn next(&self, most: usize) -> Pick {
        let chosen = self.choose(most);
        if chosen >= most || self.kept_small + 1 < self.pause {
            return Pick::Best(chosen);
        }
        Pick::Probe(self.larger(chosen, most))
    }

    /// Picks the weight of [`Curve::next`], and counts it.
    pub fn pick(&mut self, most: usize) -> Pick {
        let pick = self.next(most);
        match pick {
            Pick::Best(weight) => self.kept_small += u32::from(weight < most),
            Pick::Probe(_) => {
                self.kept_small = 0;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.probes = self.probes.wrapping_add(1);
            }
        }
        pick
    }

    /// Returns a measured weight between `chosen` and `most`, or `most` itself, in rotation.
    fn larger(&self, chosen: usize, most: usize) -> usize {
        let mut between =
            self.points.iter().map(|point| point.weight).filter(|weight| (chosen + 1..most).contains(weight));
        let turns = between.clone().count() + 1;
        between.nth(self.probes.wrapping_add(1) % turns).unwrap_or(most)
    }

    fn nanos(&self, weight: usize) -> Option<f64> {
        let last = *self.points.last()?;
        let i = self.points.partition_point(|point| point.weight < weight);
        let Some(&above) = self.points.get(i) else {
            return Some(last.nanos + self.slope_beyond(last) * (weight - last.weight) as f64);
        };
        // Below the smallest measured weight, nothing shows that less work would be faster.
        let Some(&below) = i.checked_sub(1).and_then(|i| self.points.get(i)) else {
            return Some(above.nanos);
        };
        let share = (weight - below.weight) as f64 / (above.weight - below.weight) as f64;
        Some(below.nanos + (above.nanos - below.nanos) * share)
    }

    /// Returns the nanoseconds of each further row: the slope of the last piece, limited so that larger batches are
    /// still tried.
    fn slope_beyond(&self, last: Point) -> f64 {
        let before = self.points.iter().rev().nth(1);
        let slope = before.map_or(0.0, |before| (last.nanos - before.nanos) / (last.weight - before.weight) as f64);
        slope.clamp(0.0, last.row() * OPTIMISM)
    }

    /// Removes a point if there are more than [`MAX_POINTS`]: the inner one whose neighbours are closest to each other.
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
