//! The first batches of clients, which run both as a graph and as an ordinary run. The warm-up compares the two on one
//! input only, because the model may run on no other generated input; these batches compare them on further inputs.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Batches of clients for which a graph is compared with an ordinary run.
const BATCHES: u8 = 2;

/// The comparisons of one graph.
#[derive(Debug)]
pub(crate) struct Probation {
    left: AtomicU8,
    refuted: AtomicBool,
}

impl Default for Probation {
    fn default() -> Self {
        Self { left: AtomicU8::new(BATCHES), refuted: AtomicBool::new(false) }
    }
}

impl Probation {
    /// Returns true if the next batch is to be compared.
    pub(crate) fn is_open(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Returns true if a replay failed or returned other outputs than an ordinary run.
    pub(crate) fn is_refuted(&self) -> bool {
        self.refuted.load(Ordering::Relaxed)
    }

    /// Records that a replay failed or returned other outputs than an ordinary run.
    pub(crate) fn refute(&self) {
        self.refuted.store(true, Ordering::Relaxed);
    }

    /// Records the outputs of an ordinary run and of a replay of the same batch.
    pub(crate) fn compare<A: PartialEq>(&self, launched: &A, replayed: &A) {
        if launched != replayed {
            self.refute();
        }
        let down = |left: u8| Some(left.saturating_sub(1));
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, down);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_serves_alone_after_two_batches_with_the_same_outputs() {
        let probation = Probation::default();
        for _ in 0..BATCHES {
            assert!(probation.is_open());
            probation.compare(&[1.0], &[1.0]);
        }
        // A batch may have been started before the last comparison ended.
        probation.compare(&[1.0], &[1.0]);
        assert!(!probation.is_open() && !probation.is_refuted());
    }

    #[test]
    fn one_difference_refutes_the_graph() {
        let probation = Probation::default();
        probation.compare(&[1.0], &[1.0]);
        probation.compare(&[1.0], &[2.0]);
        assert!(probation.is_refuted());
    }
}
