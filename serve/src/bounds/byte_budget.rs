//! A limit on the bytes that all requests hold together. Each request has a limit of its own, but many large ones at
//! once would still exceed the machine's memory.
//!
//! Each permit must leave free 1024 times its own size, or an eighth of the budget if that is less. Therefore small
//! requests are admitted however many bytes large requests hold, and however long. If a permit is of a known client,
//! all permits of the client together may hold no more bytes than stay free for others: see `shares.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use crate::bounds::shares::{ClientHolding, Holder, Holdings};

/// Multiple of its own size that a permit must leave free. A permit that grows as far as it can takes 1/1025 of what is
/// free: a thousand of them leave more than a third free, and the 4096 connections that one address has by default
/// leave 1/55.
const RESERVE_FACTOR: usize = 1024;

/// Divisor of the budget: a permit never has to leave more than one eighth free, so one request may hold seven eighths.
const RESERVE_DIVISOR: usize = 8;

/// Budget of bytes that permits share. Clones share the same budget.
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    limit: usize,
    /// Free bytes, with one semaphore permit per byte.
    free: Semaphore,
    /// Bytes that each known client holds.
    clients: Holdings,
}

/// Bytes taken from a [`ByteBudget`], returned on drop.
#[derive(Debug)]
pub struct BudgetPermit {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
    /// Bytes of all permits of the client; `None` if no client's share limits the permit.
    client: Option<ClientHolding>,
}

/// Error of a permit that may not grow because too few bytes would stay free for other requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory budget of {limit} bytes is used up")]
pub struct BudgetExhausted {
    /// Limit of the budget in bytes.
    pub limit: usize,
    /// Cause of the exhaustion: all requests together, or the permit's own client.
    pub by: ExhaustedBy,
}

/// Holder of so many bytes of a budget that a permit may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExhaustedBy {
    /// All requests together, whichever clients they are from.
    All,
    /// The permit's own client, which already uses its share.
    Client,
}

impl ByteBudget {
    /// Returns a budget of `limit` bytes, capped at one eighth of the address space.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Budget { limit, free: Semaphore::new(limit), clients: Holdings::default() }))
    }

    /// Returns a permit that holds no bytes yet.
    #[must_use]
    pub fn permit(&self) -> BudgetPermit {
        self.permit_of(None)
    }

    /// Returns a permit of a client that holds no bytes yet. With `None`, no client's share limits the permit.
    #[must_use]
    pub fn permit_of(&self, holder: Option<Holder>) -> BudgetPermit {
        let client = holder.map(|holder| self.0.clients.of(holder));
        BudgetPermit { budget: Arc::clone(&self.0), bytes: AtomicUsize::new(0), client }
    }

    /// Returns the bytes that all permits may hold together.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Returns the bytes that all permits hold now.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.0.limit.saturating_sub(self.0.free.available_permits())
    }
}

impl Default for ByteBudget {
    /// Returns a budget without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Budget {
    /// Takes `bytes` more for a permit that will hold `held` bytes afterwards.
    fn take(&self, bytes: usize, held: usize, client: Option<&ClientHolding>) -> Result<(), BudgetExhausted> {
        let limit = self.limit;
        // A concurrent permit may take bytes after this check; then slightly less than the reserve stays free.
        let left = self.free.available_permits().saturating_sub(bytes);
        if left < held.saturating_mul(RESERVE_FACTOR).min(limit / RESERVE_DIVISOR) {
            return Err(BudgetExhausted { limit, by: ExhaustedBy::All });
        }
        if client.is_some_and(|client| !client.add(bytes, left)) {
            return Err(BudgetExhausted { limit, by: ExhaustedBy::Client });
        }
        let mut taken = 0;
        // The semaphore grants at most `u32::MAX` permits per call.
        while taken < bytes {
            let chunk = u32::try_from(bytes - taken).unwrap_or(u32::MAX);
            let Ok(permit) = self.free.try_acquire_many(chunk) else {
                self.free.add_permits(taken);
                if let Some(client) = client {
                    client.remove(bytes);
                }
                return Err(BudgetExhausted { limit, by: ExhaustedBy::All });
            };
            permit.forget();
            taken += chunk as usize;
        }
        Ok(())
    }
}

impl BudgetPermit {
    /// Returns the bytes that this permit holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Grows or shrinks the permit to `bytes`. Only one task or thread at a time may call this.
    ///
    /// # Errors
    /// [`BudgetExhausted`] if growing would leave too few bytes for other requests, or for other clients; the permit
    /// then keeps its size.
    pub fn resize(&self, bytes: usize) -> Result<(), BudgetExhausted> {
        let before = self.bytes();
        if bytes > before {
            self.budget.take(bytes - before, bytes, self.client.as_ref())?;
        } else {
            self.give_back(before - bytes);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Grows the permit by `more` bytes. Only one task or thread at a time may call this.
    ///
    /// # Errors
    /// Fails like [`resize`](Self::resize).
    pub fn grow(&self, more: usize) -> Result<(), BudgetExhausted> {
        self.resize(self.bytes().saturating_add(more))
    }

    fn give_back(&self, bytes: usize) {
        if let Some(client) = &self.client {
            client.remove(bytes);
        }
        self.budget.free.add_permits(bytes);
    }
}

impl Drop for BudgetPermit {
    fn drop(&mut self) {
        self.give_back(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_permit_leaves_an_eighth_or_room_for_a_thousand_of_its_size() {
        const LIMIT: usize = 80_000;
        let budget = ByteBudget::new(LIMIT);
        let (first, second) = (budget.permit(), budget.permit());
        let exhausted = BudgetExhausted { limit: LIMIT, by: ExhaustedBy::All };
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
    fn permits_of_one_client_together_leave_as_much_as_they_hold() {
        let (budget, weight) = (ByteBudget::new(1 << 20), NonZeroU16::MIN);
        let of = |id| budget.permit_of(Some(Holder { id, weight }));
        let held: Vec<_> = (0..1000).map(|_| of(1)).filter(|permit| permit.grow(1 << 10).is_ok()).collect();
        assert_eq!((held.len(), budget.in_use()), (512, 1 << 19));
        let exhausted = BudgetExhausted { limit: 1 << 20, by: ExhaustedBy::Client };
        assert_eq!(held[0].grow(1), Err(exhausted));
        let other = of(2);
        other.grow(100 << 10).unwrap();
        // Bytes of unknown clients count as taken.
        let unknown = budget.permit();
        unknown.grow(100 << 10).unwrap();
        assert_eq!(other.grow(100 << 10).map_err(|error| error.by), Ok(()));
        assert_eq!(other.grow(10 << 10).map_err(|error| error.by), Err(ExhaustedBy::Client));
        drop(held);
        other.grow(200 << 10).unwrap();
        other.resize(0).unwrap();
        drop((other, unknown));
        assert_eq!(budget.in_use(), 0);
        assert!(of(1).grow(400 << 10).is_ok());
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
    fn a_budget_without_a_limit_grants_a_tebibyte() {
        let budget = ByteBudget::default();
        let permit = budget.permit();
        permit.resize(1 << 40).unwrap();
        assert_eq!(budget.in_use(), 1 << 40);
        assert_eq!(budget.clone().limit(), Semaphore::MAX_PERMITS);
    }

    proptest! {
        #[test]
        fn large_permits_leave_room_for_small_ones(wishes in vec(0..1_usize << 30, 0..1000)) {
            let budget = ByteBudget::new(1 << 30);
            let held: Vec<_> = wishes.iter().map(|wish| granted(&budget, *wish)).collect();
            let sum: usize = held.iter().map(BudgetPermit::bytes).sum();
            prop_assert_eq!(sum, budget.in_use());
            prop_assert!(budget.permit().grow(32 << 10).is_ok());
        }
    }

    /// Returns a permit for as many of the `wish` bytes as the budget grants, taken in pieces.
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
