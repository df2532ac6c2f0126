//! The lock between captures of CUDA graphs and work of other threads that fails beside a capture.
//!
//! A capture is confined to its thread and stream, so other models load and serve meanwhile. Three kinds of work are the
//! exception: emptying the allocator's caches, waiting for the whole device, and drawing random numbers of the device's
//! generator.

use std::cell::Cell;
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Held for writing by a capture, and for reading by work that fails beside one.
static CAPTURES: RwLock<()> = RwLock::new(());

/// Longest wait of a capture for such work to end. Without the lock, the model stays without graphs.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

thread_local! {
    /// True while this thread captures.
    static CAPTURING: Cell<bool> = const { Cell::new(false) };
}

/// The lock of a capture, which the thread that took it must drop.
#[derive(Debug)]
pub(crate) struct Alone {
    _lock: RwLockWriteGuard<'static, ()>,
}

impl Drop for Alone {
    fn drop(&mut self) {
        CAPTURING.set(false);
    }
}

/// Waits until no other thread captures, and holds off later captures. The run that is captured is part of the capture, so
/// its own thread gets `None` and does not wait. A thread must not call this twice at a time.
pub(crate) fn hold_off() -> Option<RwLockReadGuard<'static, ()>> {
    (!CAPTURING.get()).then(|| CAPTURES.read())
}

/// Takes the lock for a capture of this thread; `None` if other work held it too long.
pub(crate) fn begin() -> Option<Alone> {
    let lock = CAPTURES.try_write_for(LONGEST_WAIT)?;
    CAPTURING.set(true);
    Some(Alone { _lock: lock })
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

    /// A model with dropout may draw random numbers, so its runs hold off captures, and its own captured run must not wait.
    #[test]
    fn the_captured_run_does_not_wait_for_its_own_capture() {
        let capture = begin().unwrap();
        assert!(hold_off().is_none());
        drop(capture);
        assert!(hold_off().is_some());
    }
}
