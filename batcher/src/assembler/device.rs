//! A device that works asynchronously.

use std::time::{Duration, Instant};

/// State of a device that works asynchronously, for the start of its next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncDevice {
    /// Time at which the device will probably be free.
    pub free_at: Instant,
    /// Time in which the host prepares a batch's inputs. It is hidden if the batch is started while the device is busy.
    pub inputs: Duration,
    /// Time in which the host launches a batch once its inputs are ready.
    pub launch: Duration,
    /// Time in which the host copies the inputs of one row when it stages them; zero if nothing is staged, or the time
    /// is not known.
    pub row: Duration,
}

impl AsyncDevice {
    /// Returns the time in which the host stages this many rows.
    pub(super) fn copies(self, rows: usize) -> Duration {
        self.row.saturating_mul(u32::try_from(rows).unwrap_or(u32::MAX))
    }
}
