//! Distinguishes a fixed number of clients, each of which waits for its answer, from requests that arrive
//! independently.

use std::collections::VecDeque;

/// Number of batches that are compared. Requests that arrive independently hardly ever have the same number at eight
/// batches in a row, if there are enough of them to fill batches of several rows.
const BATCHES: usize = 8;

/// The least and the greatest weight of these batches may differ by one part in `SPREAD` of the greatest. With many
/// clients, some are between an answer and their next request, and those are counted only by an average.
const SPREAD: usize = 16;

/// The weight of the items that were queued, running, or about to return when each of the latest batches was formed.
#[derive(Clone, Debug, Default)]
pub(super) struct Circulation(VecDeque<usize>);

impl Circulation {
    /// Records the weight when a batch is formed.
    pub(super) fn formed(&mut self, all: usize) {
        if self.0.len() == BATCHES {
            self.0.pop_front();
        }
        self.0.push_back(all);
    }

    /// Returns true if the items come from a fixed number of clients: the weight was about the same at all of the
    /// latest batches.
    pub(super) fn is_steady(&self) -> bool {
        let (least, most) = (self.0.iter().min(), self.0.iter().max());
        let spread = most.zip(least).map(|(most, least)| (most - least) * SPREAD <= *most);
        self.0.len() == BATCHES && spread.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(weights: impl IntoIterator<Item = usize>) -> Circulation {
        let mut circulation = Circulation::default();
        weights.into_iter().for_each(|weight| circulation.formed(weight));
        circulation
    }

    #[test]
    fn a_weight_is_steady_after_eight_batches() {
        assert!(!after([8; 7]).is_steady());
        assert!(after([8; 8]).is_steady());
        assert!(after([3, 9, 8, 8, 8, 8, 8, 8, 8, 8]).is_steady(), "earlier batches do not count");
    }

    #[test]
    fn a_small_weight_must_be_the_same_and_a_large_one_about_the_same() {
        assert!(!after([8, 8, 8, 7, 8, 8, 8, 8]).is_steady());
        assert!(after([32, 31, 32, 30, 32, 32, 32, 32]).is_steady());
        assert!(!after([32, 31, 32, 29, 32, 32, 32, 32]).is_steady());
    }
}
