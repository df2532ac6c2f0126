//! Limits of a fetch.

use std::time::Duration;

/// Limits of one fetch, as servers and archives are not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest download, in bytes.
    pub download: u64,
    /// Largest unpacked size of an archive, in bytes.
    pub unpacked: u64,
    /// Most files and directories in an archive.
    pub entries: u64,
    /// Longest time without data from the server.
    pub stall: Duration,
    /// Most attempts in a row without progress.
    pub attempts: u32,
}

impl Default for Limits {
    /// 64 GiB, twice that unpacked (weights hardly compress), a hundred thousand files; a minute without data
    /// (an object store may need some seconds to begin); five attempts, about half a minute in all.
    fn default() -> Self {
        Self { download: 64 << 30, unpacked: 128 << 30, entries: 100_000, stall: Duration::from_secs(60), attempts: 5 }
    }
}
