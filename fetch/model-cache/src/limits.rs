//! Limits of a cache.

use std::time::Duration;

use weir_fetch::node_cache::LEASE_TIME;

/// Limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Maximum number of bytes on disk.
    pub bytes: u64,
    /// Time after which a lease that is not renewed passes to the next client.
    pub lease: Duration,
}

impl CacheLimits {
    /// Returns the limits of a cache with this number of bytes, whose clients renew their leases as `weir fetch` does.
    #[must_use]
    pub const fn of_bytes(bytes: u64) -> Self {
        Self { bytes, lease: LEASE_TIME }
    }
}
