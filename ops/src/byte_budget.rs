//! A limit on the bytes that many requests hold together: each has a limit of its own, but many large ones
//! at once would still be more than the machine has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

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

/// The error of a permit that may not grow, because all together would pass the limit.
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
        Self(Arc::new(Budget {
            limit,
            free: Semaphore::new(limit),
        }))
    }

    /// Returns a permit that holds no bytes yet.
    #[must_use]
    pub fn permit(&self) -> BudgetPermit {
        BudgetPermit {
            budget: Arc::clone(&self.0),
            bytes: AtomicUsize::new(0),
        }
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
    fn take(&self, bytes: usize) -> Result<(), BudgetExhausted> {
        let limit = self.limit;
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
    /// [`BudgetExhausted`] where all permits together would pass the limit; this one then stays as it was.
    pub fn resize(&self, bytes: usize) -> Result<(), BudgetExhausted> {
        let before = self.bytes();
        if bytes > before {
            self.budget.take(bytes - before)?;
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
    use super::*;

    #[test]
    fn permits_never_pass_the_limit_and_are_given_back() {
        let budget = ByteBudget::new(100);
        let (first, second) = (budget.permit(), budget.permit());
        first.resize(60).unwrap();
        second.resize(40).unwrap();
        let exhausted = BudgetExhausted { limit: 100 };
        assert_eq!(second.resize(41), Err(exhausted));
        assert_eq!(second.bytes(), 40);
        first.resize(59).unwrap();
        second.resize(41).unwrap();
        drop(first);
        assert_eq!(budget.in_use(), 41);
        second.resize(0).unwrap();
        assert_eq!(budget.in_use(), 0);
    }

    #[test]
    fn permits_grow_by_pieces() {
        let budget = ByteBudget::new(100);
        let (first, second) = (budget.permit(), budget.permit());
        first.grow(60).unwrap();
        assert_eq!(second.grow(41), Err(BudgetExhausted { limit: 100 }));
        second.grow(40).unwrap();
        drop(first);
        assert_eq!(budget.in_use(), 40);
        assert!(second.grow(usize::MAX).is_err());
    }

    #[test]
    fn more_bytes_than_a_semaphore_hands_out_at_once() {
        let most = u32::MAX as usize;
        let budget = ByteBudget::new(2 * most);
        let permit = budget.permit();
        permit.resize(2 * most).unwrap();
        assert_eq!(budget.in_use(), 2 * most);
        assert!(permit.resize(2 * most + 1).is_err());
        drop(permit);
        assert_eq!(budget.in_use(), 0);
        assert!(budget.permit().resize(2 * most + 1).is_err());
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
}
