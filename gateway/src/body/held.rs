//! Bytes that are charged to the byte budget until the last of them has been sent.

use std::sync::Arc;

use bytes::Bytes;
use weir_serve::byte_budget::BudgetPermit;

/// Bytes with the budget permit that is charged for them.
struct HeldBytes {
    bytes: Bytes,
    _permit: Arc<BudgetPermit>,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the same bytes, which keep the permit for as long as any slice of them is used.
pub(crate) fn held(bytes: Bytes, permit: &Arc<BudgetPermit>) -> Bytes {
    Bytes::from_owner(HeldBytes { bytes, _permit: Arc::clone(permit) })
}
