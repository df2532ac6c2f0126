//! What buffered bodies hold of memory, all of them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that buffered bodies may hold together. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Buffers(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    limit: usize,
    held: AtomicUsize,
}

/// One body's portion, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Portion {
    pool: Buffers,
    bytes: usize,
}

/// Whether a portion may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grown {
    /// It has.
    Yes,
    /// All together would pass the limit; it stayed as it was.
    No,
}

impl Buffers {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Pool {
            limit,
            held: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn portion(&self) -> Portion {
        Portion {
            pool: self.clone(),
            bytes: 0,
        }
    }

    /// Bytes held now.
    pub(crate) fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }
}

impl Portion {
    pub(crate) fn grow(&mut self, more: usize) -> Grown {
        let Pool { limit, held } = &*self.pool.0;
        let fits = |held: usize| held.checked_add(more).filter(|sum| sum <= limit);
        match held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => {
                self.bytes += more;
                Grown::Yes
            }
            Err(_) => Grown::No,
        }
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.pool.0.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_never_pass_the_limit_and_are_given_back() {
        let buffers = Buffers::new(100);
        let (mut first, mut second) = (buffers.portion(), buffers.portion());
        assert_eq!(first.grow(60), Grown::Yes);
        assert_eq!(second.grow(41), Grown::No);
        assert_eq!(second.grow(40), Grown::Yes);
        drop(first);
        assert_eq!(buffers.held(), 40);
    }
}
