//! Bytes of answers, which count against the byte budget until the last of them was sent: a client that does not read its
//! answer holds them.

use bytes::Bytes;
use weir_ops::byte_budget::{BudgetPermit, ByteBudget};

use crate::error::ServeError;

/// Answers below this are not counted: a stream or connection takes several times as much itself.
pub(crate) const UNCOUNTED: usize = 1024;

/// Bytes and what they count in.
struct HeldBytes<P> {
    bytes: Bytes,
    _permit: P,
}

impl<P> AsRef<[u8]> for HeldBytes<P> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The same bytes, which keep the permit for as long as any part of them is used.
pub(crate) fn held<P: Send + Sync + 'static>(bytes: Bytes, permit: P) -> Bytes {
    if bytes.len() < UNCOUNTED {
        return bytes;
    }
    Bytes::from_owner(HeldBytes { bytes, _permit: permit })
}

/// The same bytes, counted in a budget.
///
/// # Errors
/// [`ServeError::AnswerBudgetExhausted`].
pub(crate) fn counted(bytes: Bytes, budget: &ByteBudget) -> Result<Bytes, ServeError> {
    if bytes.len() < UNCOUNTED {
        return Ok(bytes);
    }
    let permit = budget.permit();
    count(&permit, bytes.len())?;
    Ok(held(bytes, permit))
}

/// Counts an answer of so many bytes in a permit, in place of its request.
///
/// # Errors
/// [`ServeError::AnswerBudgetExhausted`].
pub(crate) fn count(permit: &BudgetPermit, bytes: usize) -> Result<(), ServeError> {
    let counted = permit.resize(bytes);
    counted.map_err(|exhausted| ServeError::AnswerBudgetExhausted { limit: exhausted.limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_their_last_part_is_dropped() {
        let budget = ByteBudget::new(100_000);
        let mut bytes = counted(Bytes::from(vec![7; 60_000]), &budget).unwrap();
        assert_eq!(budget.in_use(), 60_000);
        let refused = counted(Bytes::from(vec![7; 60_000]), &budget).unwrap_err();
        assert!(matches!(refused, ServeError::AnswerBudgetExhausted { limit: 100_000 }));
        let end = bytes.split_off(59_999);
        drop(bytes);
        assert_eq!((budget.in_use(), &end[..]), (60_000, &[7][..]));
        drop(end);
        assert_eq!(budget.in_use(), 0);
    }
}
