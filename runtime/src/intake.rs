//! What request bodies hold of memory, all of them together: each has a limit of its own, but many
//! large ones at once would still be more than the machine has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::ServeError;

/// The bytes that request bodies may hold together. Clones share them.
#[derive(Clone, Debug)]
pub struct Intake(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    limit: usize,
    held: AtomicUsize,
}

/// One body's portion, given back when it is dropped.
#[derive(Debug)]
pub struct Portion {
    pool: Arc<Pool>,
    bytes: AtomicUsize,
}

impl Intake {
    /// Up to `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Pool {
            limit,
            held: AtomicUsize::new(0),
        }))
    }

    /// A portion of nothing yet.
    #[must_use]
    pub fn portion(&self) -> Portion {
        Portion {
            pool: Arc::clone(&self.0),
            bytes: AtomicUsize::new(0),
        }
    }

    /// The most bytes it lets be held.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }
}

impl Default for Intake {
    /// Without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Portion {
    /// Bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Holds `bytes` from now on, more or fewer than before. One task or thread at a time calls it.
    ///
    /// # Errors
    /// [`ServeError::IntakeFull`] where all portions together would pass the limit; this one then
    /// stays as it was.
    pub fn hold(&self, bytes: usize) -> Result<(), ServeError> {
        let before = self.bytes();
        if bytes > before {
            self.take(bytes - before)?;
        } else {
            self.pool.held.fetch_sub(before - bytes, Ordering::Relaxed);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn take(&self, more: usize) -> Result<(), ServeError> {
        let Pool { limit, held } = &*self.pool;
        let fits = |held: usize| held.checked_add(more).filter(|sum| sum <= limit);
        match held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(_) => Err(ServeError::IntakeFull { limit: *limit }),
        }
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.pool.held.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_never_pass_the_limit_and_are_given_back() {
        let intake = Intake::new(100);
        let (first, second) = (intake.portion(), intake.portion());
        first.hold(60).unwrap();
        second.hold(40).unwrap();
        let full = ServeError::IntakeFull { limit: 100 };
        assert_eq!(second.hold(41), Err(full));
        assert_eq!(second.bytes(), 40);
        first.hold(59).unwrap();
        second.hold(41).unwrap();
        drop(first);
        assert_eq!(intake.held(), 41);
        second.hold(0).unwrap();
        assert_eq!(intake.held(), 0);
    }
}
