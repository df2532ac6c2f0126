//! The number of gateways that divide the limits of clients.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of gateways that are up, this one included. A gateway that knows no other is alone.
#[derive(Debug)]
pub(super) struct GatewayCount(AtomicU32);

impl Default for GatewayCount {
    fn default() -> Self {
        Self(AtomicU32::new(1))
    }
}

impl GatewayCount {
    pub(super) fn set(&self, gateways: u32) {
        self.0.store(gateways, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> NonZeroU32 {
        NonZeroU32::new(self.0.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN)
    }
}
