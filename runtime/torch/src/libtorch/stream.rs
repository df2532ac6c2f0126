//! Streams and events of a CUDA device.

#![expect(unsafe_code, reason = "owns libtorch's streams and events")]

use std::ptr;
use std::time::Duration;

use crate::libtorch::fault::Fault;
use crate::libtorch::ffi::{self, RawEvent, RawStream};

/// A CUDA stream: a queue of a device's work, which runs in order.
#[derive(Debug)]
pub(crate) struct Stream {
    raw: *mut RawStream,
}

// SAFETY: `raw` points to a plain value, the numbers of a device and a stream, which is never written after its
// creation. CUDA lets any thread queue work on a stream.
unsafe impl Send for Stream {}
// SAFETY: as for `Send`. Work that several threads queue has no order between the threads, which is safe.
unsafe impl Sync for Stream {}

impl Stream {
    /// Takes a stream of the device from libtorch's pool, which may return the same stream again.
    pub(crate) fn new(device: usize) -> Result<Self, Fault> {
        let device = i32::try_from(device).unwrap_or(i32::MAX);
        let mut raw = ptr::null_mut();
        // SAFETY: both results are valid for writes.
        Fault::check(|error| unsafe { ffi::weir_stream_new(device, &mut raw, error) })?;
        Ok(Self { raw })
    }

    /// Returns the number that no other stream of the device has.
    pub(crate) fn number(&self) -> i64 {
        // SAFETY: the stream is alive.
        unsafe { ffi::weir_stream_number(self.raw) }
    }

    /// Records an event that completes when all work queued so far is done.
    pub(crate) fn record(&self) -> Result<Event, Fault> {
        let mut raw = ptr::null_mut();
        // SAFETY: the stream is alive, and both results are valid for writes.
        Fault::check(|error| unsafe { ffi::weir_stream_record(self.raw, &mut raw, error) })?;
        Ok(Event { raw })
    }

    /// Makes work that is queued from now on wait for the event.
    pub(crate) fn wait(&self, event: &Event) -> Result<(), Fault> {
        // SAFETY: the stream and the event are alive, and `error` is valid for writes.
        Fault::check(|error| unsafe { ffi::weir_stream_wait(self.raw, event.raw, error) })
    }

    /// Blocks until all queued work is done.
    pub(crate) fn synchronize(&self) -> Result<(), Fault> {
        // SAFETY: the stream is alive, and `error` is valid for writes.
        Fault::check(|error| unsafe { ffi::weir_stream_synchronize(self.raw, error) })
    }

    /// Returns the shim's stream, which `self` still owns.
    pub(crate) fn as_raw(&self) -> *const RawStream {
        self.raw
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: `self` owns this handle, and nothing uses it afterwards; the stream itself belongs to libtorch's
        // pool.
        unsafe { ffi::weir_stream_free(self.raw) }
    }
}

/// A CUDA event: a point in a stream's queue of work.
#[derive(Debug)]
pub(crate) struct Event {
    raw: *mut RawEvent,
}

// SAFETY: a CUDA event belongs to no thread, and `Event` is not `Sync`, so one thread at a time uses it.
unsafe impl Send for Event {}

impl Event {
    /// Blocks until the event has completed.
    pub(crate) fn synchronize(&self) -> Result<(), Fault> {
        // SAFETY: the event is alive, and `error` is valid for writes.
        Fault::check(|error| unsafe { ffi::weir_event_synchronize(self.raw, error) })
    }

    /// Returns the time from `from` to this event by the device's clock. Both events must have completed.
    pub(crate) fn since(&self, from: &Self) -> Result<Duration, Fault> {
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive, and the results are valid for writes.
        Fault::check(|error| unsafe { ffi::weir_event_elapsed(from.raw, self.raw, &mut milliseconds, error) })?;
        Ok(Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: `self` owns the event, and nothing uses it afterwards; CUDA keeps an event that has yet to complete.
        unsafe { ffi::weir_event_free(self.raw) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process never opens libtorch_cuda, so a stream must fail with a message, not crash.
    #[test]
    fn without_cuda_a_stream_is_an_error() {
        let Err(Fault::Raised(text)) = Stream::new(0) else {
            panic!("a stream without a device");
        };
        assert!(text.contains("CUDA"), "{text}");
    }
}
