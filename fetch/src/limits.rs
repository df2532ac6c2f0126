//! How much and how long.

use std::time::Duration;

/// Bounds of one fetch. Servers and archives come from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest download, in bytes.
    pub download: u64,
    /// The most that an archive may hold, unpacked, in bytes.
    pub unpacked: u64,
    /// The most files and directories that an archive may hold.
    pub entries: u64,
    /// The longest that a server may send nothing.
    pub stall: Duration,
    /// Attempts in a row that may bring nothing new.
    pub attempts: u32,
}

impl Default for Limits {
    /// 64 GiB, twice that unpacked (weights hardly shrink), a hundred thousand files; a minute of silence
    /// (a store that assembles an answer needs some seconds); five attempts, half a minute in all.
    fn default() -> Self {
        Self {
            download: 64 << 30,
            unpacked: 128 << 30,
            entries: 100_000,
            stall: Duration::from_secs(60),
            attempts: 5,
        }
    }
}
