//! Streams of a CUDA device, and moments of them.

#![expect(unsafe_code, reason = "owns libtorch's streams and events")]

use std::ptr;
use std::time::Duration;

use crate::fault::Fault;
use crate::ffi::{self, RawEvent, RawStream};

/// Work of a device, done in the order it was queued in.
#[derive(Debug)]
pub(crate) struct Stream {
    raw: *mut RawStream,
}

// SAFETY: it points to a plain value, a device's and a stream's number, which nobody writes after it was
// made; CUDA lets any thread queue on a stream.
unsafe impl Send for Stream {}
// SAFETY: as above; what several threads queue is only unordered among them.
unsafe impl Sync for Stream {}

impl Stream {
    /// A stream of that CUDA device, out of libtorch's pool.
    pub(crate) fn new(device: usize) -> Result<Self, Fault> {
        let device = i32::try_from(device).unwrap_or(i32::MAX);
        let (mut raw, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: both results are places to write to.
        let status = unsafe { ffi::weir_stream_new(device, &mut raw, &mut error) };
        Fault::check(status, error)?;
        Ok(Self { raw })
    }

    /// The event that comes when all that is queued so far is done.
    pub(crate) fn record(&self) -> Result<Event, Fault> {
        let (mut raw, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream is alive, and both results are places to write to.
        let status = unsafe { ffi::weir_stream_record(self.raw, &mut raw, &mut error) };
        Fault::check(status, error)?;
        Ok(Event { raw })
    }

    /// Lets what is queued from now on wait for the event.
    pub(crate) fn wait(&self, event: &Event) -> Result<(), Fault> {
        let mut error = ptr::null_mut();
        // SAFETY: both are alive, and `error` is a place to write to.
        let status = unsafe { ffi::weir_stream_wait(self.raw, event.raw, &mut error) };
        Fault::check(status, error)
    }

    /// Blocks until all that is queued is done.
    pub(crate) fn synchronize(&self) -> Result<(), Fault> {
        let mut error = ptr::null_mut();
        // SAFETY: the stream is alive, and `error` is a place to write to.
        let status = unsafe { ffi::weir_stream_synchronize(self.raw, &mut error) };
        Fault::check(status, error)
    }

    /// The shim's stream, still ours.
    pub(crate) fn as_raw(&self) -> *const RawStream {
        self.raw
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: we own it, and nothing uses it after this; the stream itself is the pool's.
        unsafe { ffi::weir_stream_free(self.raw) }
    }
}

/// A moment of a stream.
#[derive(Debug)]
pub(crate) struct Event {
    raw: *mut RawEvent,
}

// SAFETY: a CUDA event belongs to no thread; this one is used by one thread at a time, for it is not
// `Sync`.
unsafe impl Send for Event {}

impl Event {
    /// Blocks until it has come.
    pub(crate) fn synchronize(&self) -> Result<(), Fault> {
        let mut error = ptr::null_mut();
        // SAFETY: the event is alive, and `error` is a place to write to.
        let status = unsafe { ffi::weir_event_synchronize(self.raw, &mut error) };
        Fault::check(status, error)
    }

    /// The time from `from` to this event, by the device's clock; both must have come.
    pub(crate) fn since(&self, from: &Self) -> Result<Duration, Fault> {
        let (mut milliseconds, mut error) = (0.0, ptr::null_mut());
        // SAFETY: both are alive, and the results are places to write to.
        let status =
            unsafe { ffi::weir_event_elapsed(from.raw, self.raw, &mut milliseconds, &mut error) };
        Fault::check(status, error)?;
        Ok(Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: we own it, and nothing uses it after this; CUDA keeps one that has yet to come.
        unsafe { ffi::weir_event_free(self.raw) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process has never opened libtorch_cuda: what asks for it must say so, not crash.
    #[test]
    fn without_cuda_a_stream_is_refused_in_words() {
        let Err(Fault::Raised(text)) = Stream::new(0) else {
            panic!("a stream without a device");
        };
        assert!(text.contains("CUDA"), "{text}");
    }
}
