//! Limits of a fetch.

use std::time::Duration;

/// Limits of one fetch, because servers and archives are not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a download, in bytes.
    pub download: u64,
    /// Maximum unpacked size of an archive, in bytes.
    pub unpacked: u64,
    /// Maximum number of files and directories in an archive.
    pub entries: u64,
    /// Maximum time without data from the server.
    pub stall: Duration,
    /// Maximum number of consecutive attempts without progress.
    pub attempts: u32,
}

impl Default for Limits {
    /// A download of 64 GiB, twice that unpacked (weights hardly compress), and a hundred thousand files; a minute
    /// without data (an object store may need some seconds to begin); five attempts, with 15 s of delays between them
    /// in total.
    fn default() -> Self {
        Self { download: 64 << 30, unpacked: 128 << 30, entries: 100_000, stall: Duration::from_secs(60), attempts: 5 }
    }
}
