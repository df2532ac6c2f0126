//! The meter of one request's bytes and tokens, which charges its client for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use smallvec::SmallVec;

use super::Debt;
use crate::clock;

/// Number of bytes that are charged together, because each charge locks the buckets of all clients. The remaining bytes
/// are charged at the end of the request.
const STEP: u64 = 64 << 10;

/// The meter of a request whose bytes or tokens are limited. Clones are of the same request.
#[derive(Clone, Debug)]
pub(crate) struct Meter(Arc<Metered>);

#[derive(Debug)]
struct Metered {
    bytes: SmallVec<[Debt; 2]>,
    tokens: SmallVec<[Debt; 2]>,
    /// Bytes that are not charged yet.
    left: AtomicU64,
}

impl Meter {
    /// Returns the meter that charges these buckets; `None` if there are none.
    pub(super) fn of(bytes: SmallVec<[Debt; 2]>, tokens: SmallVec<[Debt; 2]>) -> Option<Self> {
        let is_limited = !bytes.is_empty() || !tokens.is_empty();
        is_limited.then(|| Self(Arc::new(Metered { bytes, tokens, left: AtomicU64::new(0) })))
    }

    /// Counts bytes of a body or of a WebSocket.
    pub(crate) fn add_bytes(&self, bytes: usize, now: Instant) {
        let bytes = bytes as u64;
        if self.0.left.fetch_add(bytes, Ordering::Relaxed) + bytes >= STEP {
            self.charge_bytes(now);
        }
    }

    /// Charges the client for the bytes so far.
    pub(crate) fn charge_bytes(&self, now: Instant) {
        charge(&self.0.bytes, self.0.left.swap(0, Ordering::Relaxed), now);
    }

    /// Counts tokens that a model has read and written.
    pub(crate) fn add_tokens(&self, tokens: u64, now: Instant) {
        charge(&self.0.tokens, tokens, now);
    }

    /// Returns true if the tokens of the response are limited.
    pub(crate) fn counts_tokens(&self) -> bool {
        !self.0.tokens.is_empty()
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        charge(&self.bytes, *self.left.get_mut(), clock::now());
    }
}

fn charge(debts: &[Debt], units: u64, now: Instant) {
    if units > 0 {
        debts.iter().for_each(|debt| debt.charge(units, now));
    }
}
