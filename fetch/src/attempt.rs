//! Progress reports about a download.

use std::fmt;

use crate::size::shown;

/// An event in the attempts to download the files of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The server has begun to send, for the first time or again after a failure.
    Began,
    /// A request failed for this reason, and another one follows.
    Failed(String),
    /// Bytes received so far, each second.
    Progressed(Progress),
}

/// Bytes of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes on disk, including those of earlier processes.
    pub done: u64,
    /// Size of all files in bytes; `None` if the server does not say it.
    pub total: Option<u64>,
    /// Bytes per second during the last seconds.
    pub rate: u64,
}

impl Progress {
    /// Returns the seconds until the end at the present rate; `None` if nothing arrives or the size is unknown.
    #[must_use]
    pub fn seconds_left(&self) -> Option<u64> {
        let left = self.total?.saturating_sub(self.done);
        (self.rate > 0).then(|| left.div_ceil(self.rate))
    }
}

impl fmt::Display for Progress {
    /// Formats the progress as a clause, such as `fetched 3.1 of 12.4 GB, 210 MB/s, 44 s left`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (done, rate) = (shown(self.done), shown(self.rate));
        match self.total.map(shown) {
            Some(total) => write!(f, "fetched {done} of {total}, {rate}/s")?,
            None => write!(f, "fetched {done}, {rate}/s")?,
        }
        match self.seconds_left() {
            Some(seconds) => write!(f, ", {seconds} s left"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_reads_as_a_clause() {
        let progress = |total, rate| Progress { done: 3_100_000_000, total, rate }.to_string();
        assert_eq!(progress(Some(12_400_000_000), 210_000_000), "fetched 3.1 GB of 12.4 GB, 210 MB/s, 45 s left");
        assert_eq!(progress(None, 210_000_000), "fetched 3.1 GB, 210 MB/s");
        assert_eq!(progress(Some(12_400_000_000), 0), "fetched 3.1 GB of 12.4 GB, 0 B/s");
    }

    #[test]
    fn the_time_left_follows_the_rate() {
        let progress = |total, rate| Progress { done: 40, total, rate };
        assert_eq!(progress(Some(100), 7).seconds_left(), Some(9));
        assert_eq!(progress(Some(100), 0).seconds_left(), None);
        assert_eq!(progress(None, 7).seconds_left(), None);
        assert_eq!(progress(Some(10), 7).seconds_left(), Some(0));
    }
}
