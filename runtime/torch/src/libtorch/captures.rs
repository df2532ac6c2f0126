//! The lock between captures of CUDA graphs and work of other threads that fails beside a capture.
//!
//! A capture is confined to its thread and stream, so other models load and serve meanwhile. Three kinds of work are the
//! exception: emptying the allocator's caches, waiting for the whole device, and drawing random numbers of the device's
//! generator.

use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Held for writing by a capture, and for reading by work that fails beside one.
static CAPTURES: RwLock<()> = RwLock::new(());

/// Longest wait of a capture for such work to end. Without the lock, the model stays without graphs.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Waits until no capture is under way, and holds off later ones. A thread must not call this twice at a time.
pub(crate) fn hold_off() -> RwLockReadGuard<'static, ()> {
    CAPTURES.read()
}

/// Takes the lock for a capture; `None` if other work held it too long.
pub(crate) fn begin() -> Option<RwLockWriteGuard<'static, ()>> {
    CAPTURES.try_write_for(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_fails_beside_a_capture_waits_for_its_end() {
        let capture = begin().unwrap();
        let work = std::thread::spawn(|| drop(hold_off()));
        assert!(CAPTURES.try_read().is_none());
        drop(capture);
        work.join().unwrap();
        let work = hold_off();
        assert!(CAPTURES.try_write().is_none());
        drop(work);
        assert!(begin().is_some());
    }
}
