//! Bytes of responses, which count against the byte budget until the last of them is sent: a client that does not read
//! its response keeps them in memory.

use bytes::Bytes;
use weir_serve::byte_budget::{BudgetPermit, ByteBudget};

use crate::error::ServeError;

/// Responses smaller than this are not charged: the stream or connection itself takes several times as much.
pub(crate) const UNCHARGED: usize = 1024;

/// Returns the same bytes, which keep the permit until the last slice of them is dropped.
pub(crate) fn charged<P: Send + Sync + 'static>(bytes: Bytes, permit: P) -> Bytes {
    if bytes.len() < UNCHARGED {
        return bytes;
    }
    weir_serve::charged(bytes, permit)
}

/// Returns the same bytes, charged to a budget.
///
/// # Errors
/// [`ServeError::AnswerBudgetExhausted`] if too little of the budget is left.
pub(crate) fn charge(bytes: Bytes, budget: &ByteBudget) -> Result<Bytes, ServeError> {
    if bytes.len() < UNCHARGED {
        return Ok(bytes);
    }
    let permit = budget.permit();
    count(&permit, bytes.len())?;
    Ok(charged(bytes, permit))
}

/// Sets a permit to the size of a response, in place of the size of its request.
///
/// # Errors
/// [`ServeError::AnswerBudgetExhausted`] if too little of the budget is left.
pub(crate) fn count(permit: &BudgetPermit, bytes: usize) -> Result<(), ServeError> {
    permit.resize(bytes).map_err(|exhausted| ServeError::AnswerBudgetExhausted { limit: exhausted.limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_their_last_slice_is_dropped() {
        let budget = ByteBudget::new(100_000);
        let mut bytes = charge(Bytes::from(vec![7; 60_000]), &budget).unwrap();
        assert_eq!(budget.in_use(), 60_000);
        let refused = charge(Bytes::from(vec![7; 60_000]), &budget).unwrap_err();
        assert!(matches!(refused, ServeError::AnswerBudgetExhausted { limit: 100_000 }));
        let end = bytes.split_off(59_999);
        drop(bytes);
        assert_eq!((budget.in_use(), &end[..]), (60_000, &[7][..]));
        drop(end);
        assert_eq!(budget.in_use(), 0);
    }
}
