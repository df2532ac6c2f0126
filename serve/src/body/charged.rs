//! Bytes that are charged to a byte budget until the last of them has been sent.

use bytes::Bytes;

/// Bytes with the budget permit that is charged for them.
struct ChargedBytes<P> {
    bytes: Bytes,
    _permit: P,
}

impl<P> AsRef<[u8]> for ChargedBytes<P> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the same bytes, which keep the permit until the last slice of them is dropped.
#[must_use]
pub fn charged<P: Send + Sync + 'static>(bytes: Bytes, permit: P) -> Bytes {
    Bytes::from_owner(ChargedBytes { bytes, _permit: permit })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::bounds::byte_budget::ByteBudget;

    #[test]
    fn bytes_are_charged_until_their_last_slice_is_dropped() {
        let budget = ByteBudget::new(100_000);
        let permit = Arc::new(budget.permit());
        permit.resize(60_000).unwrap();
        let mut bytes = charged(Bytes::from(vec![7; 60_000]), permit);
        let end = bytes.split_off(59_999);
        drop(bytes);
        assert_eq!((budget.in_use(), &end[..]), (60_000, &[7][..]));
        drop(end);
        assert_eq!(budget.in_use(), 0);
    }
}
