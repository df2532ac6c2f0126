//! Decisions about CUDA graphs, as functions of measured times.
//!
//! A batch takes as long as its kernels run, or as long as their launches take if that is longer. A graph has one launch for
//! all kernels, so it gains where launches are the cost, which are the small sizes.

use std::time::Duration;

/// Least share of a run's time that a graph has to save. A smaller gain is within the noise of a few runs, and is not worth
/// the memory of a graph.
const LEAST_GAIN: f64 = 0.05;

/// Number of sizes in a row without a gain after which larger sizes are not captured. The gain falls with the size, and a
/// single size may have been measured during an interruption.
const FRUITLESS: usize = 2;

/// The permission to run a batch as part of a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// The rows are independent of each other, and each output has one row for each row of the inputs.
    Allowed,
    /// A batch of another size would have other answers.
    Forbidden,
}

/// The measured times of the batch sizes of one input shape, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SizeTimes(Vec<Times>);

/// The times of one batch size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    rows: usize,
    /// Time of a run whose kernels are launched one by one.
    launched: Duration,
    /// Time of a replay; `None` if the size has no graph.
    replayed: Option<Duration>,
}

/// Returns true if a graph saves enough of a run's time to be kept.
pub(crate) fn gains(launched: Duration, replayed: Duration) -> bool {
    replayed.as_secs_f64() <= launched.as_secs_f64() * (1.0 - LEAST_GAIN)
}

impl SizeTimes {
    /// Returns true if a graph of this size should be tried: the size was not tried before, and the last sizes gained.
    pub(crate) fn wants(&self, rows: usize) -> bool {
        let is_tried = self.0.iter().any(|times| times.rows == rows);
        let smaller = self.0.iter().rev().filter(|times| times.rows < rows);
        let fruitless = smaller.take_while(|times| times.replayed.is_none()).count();
        !is_tried && fruitless < FRUITLESS
    }

    /// Records the times of a size. A size that was recorded before keeps its first times.
    pub(crate) fn record(&mut self, rows: usize, launched: Duration, replayed: Option<Duration>) {
        if let Err(at) = self.0.binary_search_by_key(&rows, |times| times.rows) {
            self.0.insert(at, Times { rows, launched, replayed });
        }
    }

    /// Returns the size of the graph that runs a batch of this many rows; `None` if the batch is faster without a graph. A
    /// batch takes no less time than a smaller one, so the measured time of the next smaller size is a bound.
    pub(crate) fn graph_for(&self, rows: usize, padding: Padding) -> Option<usize> {
        let graph = self.0.iter().find(|times| times.rows >= rows && times.replayed.is_some())?;
        if graph.rows == rows {
            return Some(rows);
        }
        let below = self.0.iter().rev().find(|times| times.rows <= rows)?;
        let is_faster = gains(below.launched, graph.replayed?);
        (padding == Padding::Allowed && is_faster).then_some(graph.rows)
    }

    /// Returns the sizes that have a graph.
    pub(crate) fn captured(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().filter(|times| times.replayed.is_some()).map(|times| times.rows)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 64;

    /// A device: the time of the launches of a run, the time of a replay's launch, and the time of a row's kernels, in
    /// microseconds.
    #[derive(Clone, Copy, Debug)]
    struct FakeTimes {
        launches: u64,
        replay: u64,
        row: u64,
    }

    impl FakeTimes {
        fn launched(self, rows: usize) -> Duration {
            Duration::from_micros(self.launches.max(self.row * rows as u64))
        }

        fn replayed(self, rows: usize) -> Duration {
            Duration::from_micros(self.replay.max(self.row * rows as u64))
        }

        /// Tries the sizes of a warm-up. Returns their times and the number of captures.
        fn warmed_up(self) -> (SizeTimes, usize) {
            let (mut sizes, mut captures) = (SizeTimes::default(), 0);
            for rows in std::iter::successors(Some(1), |rows| Some(rows * 2)).take_while(|rows| *rows <= MOST) {
                if sizes.wants(rows) {
                    captures += 1;
                    let (launched, replayed) = (self.launched(rows), self.replayed(rows));
                    sizes.record(rows, launched, gains(launched, replayed).then_some(replayed));
                }
            }
            (sizes, captures)
        }
    }

    fn fake() -> impl Strategy<Value = FakeTimes> {
        (1u64..5000, 1u64..200, 1u64..500).prop_map(|(launches, replay, row)| FakeTimes { launches, replay, row })
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_graph_has_to_save_a_twentieth() {
        assert!(gains(us(1000), us(950)) && !gains(us(1000), us(951)));
        assert!(gains(us(2990), us(600)) && !gains(us(4240), us(4050)));
        assert!(!gains(Duration::ZERO, us(1)));
    }

    /// The times of BERT-base on an H100.
    #[test]
    fn sizes_between_captured_ones_are_padded_where_that_is_faster() {
        let mut sizes = SizeTimes::default();
        for (rows, launched, replayed) in [
            (1, 2990, Some(600)),
            (2, 2190, Some(630)),
            (4, 2070, Some(710)),
            (8, 2040, Some(860)),
            (16, 2960, Some(1260)),
            (32, 2810, Some(2100)),
            (64, 4240, None),
        ] {
            sizes.record(rows, us(launched), replayed.map(us));
        }
        for (rows, graph) in [(1, Some(1)), (3, Some(4)), (5, Some(8)), (9, Some(16)), (17, Some(32)), (33, None)] {
            assert_eq!(sizes.graph_for(rows, Padding::Allowed), graph, "{rows}");
        }
        assert_eq!(sizes.graph_for(3, Padding::Forbidden), None);
        assert_eq!(sizes.graph_for(4, Padding::Forbidden), Some(4));
        assert_eq!(sizes.graph_for(64, Padding::Allowed), None);
        assert_eq!(sizes.captured().collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32]);
    }

    #[test]
    fn a_single_size_without_a_gain_does_not_end_the_search() {
        let mut sizes = SizeTimes::default();
        sizes.record(1, us(1000), None);
        assert!(sizes.wants(2) && !sizes.wants(1));
        sizes.record(2, us(1000), Some(us(500)));
        sizes.record(4, us(1000), None);
        assert!(sizes.wants(8));
        sizes.record(8, us(1000), None);
        assert!(!sizes.wants(16));
    }

    proptest! {
        /// A batch is never slower with the chosen graph, for any times of the device, and an exact graph that gains is used.
        #[test]
        fn no_batch_is_slower_than_without_graphs(device in fake(), rows in 1..=MOST, allowed in any::<bool>()) {
            let padding = if allowed { Padding::Allowed } else { Padding::Forbidden };
            let (sizes, _) = device.warmed_up();
            match sizes.graph_for(rows, padding) {
                Some(graph) => {
                    prop_assert!(graph >= rows && sizes.captured().any(|size| size == graph));
                    prop_assert!(graph == rows || padding == Padding::Allowed);
                    prop_assert!(gains(device.launched(rows), device.replayed(graph)));
                }
                None => prop_assert!(!sizes.captured().any(|size| size == rows)),
            }
        }

        /// Captures are tried where they gain, and at most two sizes further.
        #[test]
        fn captures_end_where_launches_are_no_longer_the_cost(device in fake()) {
            let (sizes, captures) = device.warmed_up();
            let all = std::iter::successors(Some(1), |rows| Some(rows * 2)).take_while(|rows| *rows <= MOST);
            let gaining: Vec<usize> = all.filter(|rows| gains(device.launched(*rows), device.replayed(*rows))).collect();
            prop_assert!(captures <= gaining.len() + FRUITLESS);
            prop_assert_eq!(sizes.captured().collect::<Vec<_>>(), gaining);
        }

        #[test]
        fn any_order_of_records_gives_the_same_sizes(device in fake(), mut order in Just([1, 2, 4, 8, 16]).prop_shuffle()) {
            let recorded = |order: &[usize]| {
                let mut sizes = SizeTimes::default();
                for rows in order {
                    sizes.record(*rows, device.launched(*rows), Some(device.replayed(*rows)));
                }
                sizes
            };
            let shuffled = recorded(&order);
            order.sort_unstable();
            prop_assert_eq!(shuffled, recorded(&order));
        }
    }
}
