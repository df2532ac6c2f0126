//! A reader with a byte allowance, which limits what an archive library reads into memory by itself.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

/// A reader that fails once it has read more than its allowance.
pub(super) struct Metered<R> {
    inner: R,
    allowance: Allowance,
}

/// Number of bytes that may still be read, shared with the reader.
#[derive(Clone, Debug)]
pub(super) struct Allowance(Rc<Cell<u64>>);

impl<R> Metered<R> {
    /// Returns a reader that may read `bytes`, and its allowance.
    pub(super) fn new(inner: R, bytes: u64) -> (Self, Allowance) {
        let allowance = Allowance(Rc::new(Cell::new(bytes)));
        let shared = allowance.clone();
        (Self { inner, allowance }, shared)
    }
}

impl Allowance {
    /// Sets the number of bytes that may be read from now on.
    pub(super) fn set(&self, bytes: u64) {
        self.0.set(bytes);
    }

    /// Removes the limit, for data that is counted elsewhere.
    pub(super) fn lift(&self) {
        self.0.set(u64::MAX);
    }

    /// Returns the number of bytes that may still be read.
    pub(super) fn left(&self) -> u64 {
        self.0.get()
    }

    /// Returns true if nothing more may be read.
    pub(super) fn is_exhausted(&self) -> bool {
        self.0.get() == 0
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.allowance.0.get();
        if left == 0 && !buffer.is_empty() {
            return Err(io::Error::other("the read limit is exceeded"));
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.inner.read(&mut buffer[..most])?;
        self.allowance.0.set(left - read as u64);
        Ok(read)
    }
}

impl<R: Seek> Seek for Metered<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
