//! A limit on the bytes that many requests hold together: each has a limit of its own, but many large ones
//! at once would still be more than the machine has.
//!
//! Each leaves room for 1024 more of its size, or an eighth of the budget where that is less. However much large
//! requests hold, and however long, small ones find room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

/// Requests of a permit's size for which it leaves room. Each that takes all it may takes a 1025th of what is left: a
/// thousand of them a third, and the 4096 connections that one address has by default leave 1/55.
const OTHERS: usize = 1024;

/// The part of the budget that no permit needs to leave more of: a request may have seven eighths of it.
const KEPT: usize = 8;

/// Bytes that all its permits may hold together. Clones share them.
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    limit: usize,
    /// Bytes left, one permit each.
    free: Semaphore,
}

/// Bytes held out of a [`ByteBudget`], given back on drop.
#[derive(Debug)]
pub struct BudgetPermit {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

/// The error of a permit that may not grow, because too little would be left for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory budget of {limit} bytes is used up")]
pub struct BudgetExhausted {
    /// Limit of the budget in bytes.
    pub limit: usize,
}

impl ByteBudget {
    /// A budget of `limit` bytes, or of an eighth of the address space where `limit` is more.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Budget { limit, free: Semaphore::new(limit) }))
    }

    /// Returns a permit that holds no bytes yet.
    #[must_use]
    pub fn permit(&self) -> BudgetPermit {
        BudgetPermit { budget: Arc::clone(&self.0), bytes: AtomicUsize::new(0) }
    }

    /// Most bytes that all permits may hold together.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes that all permits hold now.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.0.limit.saturating_sub(self.0.free.available_permits())
    }
}

impl Default for ByteBudget {
    /// A budget without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Budget {
    /// Takes so many bytes for a permit that then holds `held`.
    fn take(&self, bytes: usize, held: usize) -> Result<(), BudgetExhausted> {
        let limit = self.limit;
        // Others may take more meanwhile: then a little less is left.
        let left = self.free.available_permits().saturating_sub(bytes);
        if left < held.saturating_mul(OTHERS).min(limit / KEPT) {
            return Err(BudgetExhausted { limit });
        }
        let mut taken = 0;
        // The semaphore hands out no more than `u32::MAX` at once.
        while taken < bytes {
            let chunk = u32::try_from(bytes - taken).unwrap_or(u32::MAX);
            let Ok(permit) = self.free.try_acquire_many(chunk) else {
                self.free.add_permits(taken);
                return Err(BudgetExhausted { limit });
            };
            permit.forget();
            taken += chunk as usize;
        }
        Ok(())
    }
}

impl BudgetPermit {
    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Grows or shrinks to `bytes`. One task or thread at a time may call it.
    ///
    /// # Errors
    /// [`BudgetExhausted`] where it would leave too little for others; it then stays as it was.
    pub fn resize(&self, bytes: usize) -> Result<(), BudgetExhausted> {
        let before = self.bytes();
        if bytes > before {
            self.budget.take(bytes - before, bytes)?;
        } else {
            self.budget.free.add_permits(before - bytes);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Grows by `more` bytes. One task or thread at a time may call it.
    ///
    /// # Errors
    /// As [`resize`](Self::resize).
    pub fn grow(&self, more: usize) -> Result<(), BudgetExhausted> {
        self.resize(self.bytes().saturating_add(more))
    }
}

impl Drop for BudgetPermit {
    fn drop(&mut self) {
        self.budget.free.add_permits(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_permit_leaves_an_eighth_or_room_for_a_thousand_of_its_size() {
        const LIMIT: usize = 80_000;
        let budget = ByteBudget::new(LIMIT);
        let (first, second) = (budget.permit(), budget.permit());
        let exhausted = BudgetExhausted { limit: LIMIT };
        assert_eq!(first.resize(70_001), Err(exhausted));
        first.resize(70_000).unwrap();
        assert_eq!(second.grow(10), Err(exhausted));
        second.grow(9).unwrap();
        assert_eq!((second.bytes(), budget.in_use()), (9, 70_009));
        first.resize(60_000).unwrap();
        second.grow(9_991).unwrap();
        assert!(second.grow(usize::MAX).is_err());
        drop(first);
        assert_eq!(budget.in_use(), 10_000);
        second.resize(0).unwrap();
        assert_eq!(budget.in_use(), 0);
    }

    #[test]
    fn more_bytes_than_a_semaphore_hands_out_at_once() {
        let most = u32::MAX as usize;
        let budget = ByteBudget::new(4 * most);
        let permit = budget.permit();
        permit.resize(3 * most).unwrap();
        assert_eq!(budget.in_use(), 3 * most);
        assert!(permit.resize(4 * most).is_err());
        drop(permit);
        assert_eq!(budget.in_use(), 0);
    }

    #[test]
    fn without_a_limit_every_amount_fits_that_memory_has() {
        let budget = ByteBudget::default();
        let permit = budget.permit();
        permit.resize(1 << 40).unwrap();
        assert_eq!(budget.in_use(), 1 << 40);
        assert_eq!(budget.clone().limit(), Semaphore::MAX_PERMITS);
    }

    proptest! {
        #[test]
        fn large_ones_leave_room_for_small_ones(wishes in vec(0..1_usize << 30, 0..1000)) {
            let budget = ByteBudget::new(1 << 30);
            let held: Vec<_> = wishes.iter().map(|wish| granted(&budget, *wish)).collect();
            let sum: usize = held.iter().map(BudgetPermit::bytes).sum();
            prop_assert_eq!(sum, budget.in_use());
            prop_assert!(budget.permit().grow(32 << 10).is_ok());
        }
    }

    /// A permit for as much of `wish` as there is room for, taken by pieces.
    fn granted(budget: &ByteBudget, wish: usize) -> BudgetPermit {
        let permit = budget.permit();
        for piece in (0..30).rev().map(|bit| 1 << bit) {
            if permit.bytes() + piece <= wish {
                let _ = permit.grow(piece);
            }
        }
        permit
    }
}
