//! Progress reports about a download.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::progress::size;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

    /// Returns the bytes so far and in total, such as `3.1 of 12.4 GB`, and only the total once it is reached.
    pub(crate) fn size(&self) -> String {
        match self.total {
            Some(total) if total != self.done => of_total(self.done, total),
            Some(_) | None => size::shown(self.done),
        }
    }
}

impl fmt::Display for Progress {
    /// Writes for example `3.1 of 12.4 GB, 210 MB/s, 44 s left`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total {
            Some(total) => f.write_str(&of_total(self.done, total))?,
            None => f.write_str(&size::shown(self.done))?,
        }
        write!(f, ", {}/s", size::shown(self.rate))?;
        match self.seconds_left() {
            Some(0) | None => Ok(()),
            Some(seconds) => write!(f, ", {} left", duration(seconds)),
        }
    }
}

/// Returns two sizes, with the unit once if it is the same.
fn of_total(done: u64, total: u64) -> String {
    let (done, total) = (size::shown(done), size::shown(total));
    match (done.split_once(' '), total.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} of {total}"),
        _ => format!("{done} of {total}"),
    }
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_shown_with_rate_and_time_left() {
        let shown = |done, total, rate| Progress { done, total, rate }.to_string();
        let gigabytes = |tenths: u64| tenths * 100_000_000;
        assert_eq!(shown(gigabytes(31), Some(gigabytes(124)), 211_000_000), "3.1 of 12.4 GB, 211 MB/s, 45 s left");
        assert_eq!(shown(310_000_000, Some(gigabytes(124)), 0), "310 MB of 12.4 GB, 0 B/s");
        assert_eq!(shown(7, None, 5), "7 B, 5 B/s");
        assert_eq!(shown(0, Some(3_600_000), 1000), "0 B of 3.6 MB, 1.0 kB/s, 60 min left");
        assert_eq!(shown(9, Some(9), 5), "9 of 9 B, 5 B/s");
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
