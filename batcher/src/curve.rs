//! How long batches take by their size, measured, and which size is worth running.

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

/// So much more time than the best size's is taken for the same. Measured times of one size move by a few
/// percent from second to second.
const TIE: f64 = 1.03;

/// Beyond the largest measured size, one so many times larger is tried: as far from one to the next as
/// the sizes of a warm-up. Its memory is then at most so many times what the last one took.
const STEP: usize = 2;

/// Every so many batches that were kept small, one runs larger: a bad sample costs one more batch in
/// 256, under half a percent, and does not rule for ever.
const PROBE_EVERY: u32 = 256;

impl Curve {
    /// Takes in that a batch of `weight` took `elapsed`.
    pub fn record(&mut self, weight: usize, elapsed: Duration) {
        let weight = weight.max(1);
        let nanos = (elapsed.as_nanos() as f64).max(1.0);
        match self
            .points
            .binary_search_by_key(&weight, |point| point.weight)
        {
            Ok(i) => self.points[i].blend(nanos),
            Err(i) => {
                let samples = 1;
                let point = Point {
                    weight,
                    nanos,
                    samples,
                };
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
    /// While larger batches than those measured are possible, they are taken to be no slower: who
    /// refuses work for its predicted wait must not overrate it.
    #[must_use]
    pub fn row(&self, most: usize) -> Option<f64> {
        let last = self.points.last()?;
        let hoped = last.nanos / most.max(last.weight) as f64;
        Some(self.points.iter().map(Point::row).fold(hoped, f64::min))
    }

    /// The size of batches, up to `most`, in which `most` rows are done soonest, by estimate. Of sizes that are
    /// nearly as good the smallest: its answers leave sooner, and it takes less memory. Beyond what was
    /// measured no more than twice that: a size that turns out bad is then not far beyond a good one.
    /// `most` itself while nothing was measured.
    #[must_use]
    pub fn choose(&self, most: usize) -> usize {
        let (mut chosen, mut soonest) = (most, f64::INFINITY);
        for (size, nanos) in self.candidates(most) {
            let whole = (most / size.max(1)) as f64 * nanos;
            if whole > soonest * TIE {
                continue;
            }
            let all = whole + self.rest(most, size);
            if all <= soonest * TIE {
                (chosen, soonest) = (size, soonest.min(all));
            }
        }
        chosen
    }

    /// Sizes worth comparing, the largest first, and what a batch of each takes. Time per row has no minimum
    /// inside a straight piece, so only its ends are.
    fn candidates(&self, most: usize) -> impl Iterator<Item = (usize, f64)> {
        let frontier = self.frontier(most);
        let largest = self.nanos(frontier).map(|nanos| (frontier, nanos));
        let below = self.points.partition_point(|point| point.weight < frontier);
        let smaller = self.points[..below].iter().rev();
        let smaller = smaller.map(|point| (point.weight, point.nanos));
        largest.into_iter().chain(smaller)
    }

    /// The largest size up to `most` that may be tried.
    fn frontier(&self, most: usize) -> usize {
        let last = self.points.last();
        last.map_or(most, |last| most.min(last.weight * STEP))
    }

    /// The estimated time of what remains of `rows` after batches of `size`.
    fn rest(&self, rows: usize, size: usize) -> f64 {
        match rows % size.max(1) {
            0 => 0.0,
            rest => self.nanos(rest).unwrap_or(0.0),
        }
    }

    /// As [`Curve::choose`], but every 256th batch that it would keep small gets another of the
    /// larger sizes instead, to measure it again.
    pub fn pick(&mut self, most: usize) -> usize {
        let chosen = self.choose(most);
        let most = self.frontier(most);
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
        let slope = before.map_or(0.0, |before| {
            (last.nanos - before.nanos) / (last.weight - before.weight) as f64
        });
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
