//! Progress reports about a download.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_rate() {
        let progress = |total, rate| Progress { done: 40, total, rate };
        assert_eq!(progress(Some(100), 7).seconds_left(), Some(9));
        assert_eq!(progress(Some(100), 0).seconds_left(), None);
        assert_eq!(progress(None, 7).seconds_left(), None);
        assert_eq!(progress(Some(10), 7).seconds_left(), Some(0));
    }
}
