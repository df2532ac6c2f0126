//! CUDA graphs: the kernels of a run, captured once and launched together.

#![expect(unsafe_code, reason = "owns libtorch's graphs")]

use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use parking_lot::Mutex;

use crate::libtorch::captures::{self, Alone};
use crate::libtorch::fault::Fault;
use crate::libtorch::ffi::{self, RawGraph, RawGraphFunctions};
use crate::libtorch::stream::Stream;

/// The library of `shim/graph_library.cc`.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/graph.so"));

/// The functions of the library once it is open, which it stays.
static FUNCTIONS: Mutex<Option<&'static RawGraphFunctions>> = Mutex::new(None);

/// A graph that is complete. It must be dropped only when no replay is running.
#[derive(Debug)]
pub(crate) struct Graph {
    raw: *mut RawGraph,
    functions: &'static RawGraphFunctions,
}

// SAFETY: CUDA lets any thread replay and free a graph, and one thread at a time uses a `Graph`.
unsafe impl Send for Graph {}

/// A capture that is under way on a stream. Dropping it ends the capture.
#[derive(Debug)]
pub(crate) struct Capture<'a> {
    graph: Graph,
    stream: &'a Stream,
    is_open: bool,
    /// Dropped last, after the capture has ended.
    _alone: Alone,
}

impl<'a> Capture<'a> {
    /// Begins a capture on a stream without other work: what this thread queues there becomes part of the graph and does
    /// not run. The graph takes memory from the pool of `like` if that is given, and must then never run beside it.
    pub(crate) fn begin(stream: &'a Stream, like: Option<&Graph>) -> Result<Self, Fault> {
        let functions = functions()?;
        let Some(alone) = captures::begin() else {
            return Err(Fault::Raised("other models kept the device busy with work that no capture allows".to_owned()));
        };
        let mut raw = ptr::null_mut();
        let like = like.map_or(ptr::null(), |graph| graph.raw.cast_const());
        // SAFETY: the stream is alive, `like` is null or a live graph, and both results are valid for writes.
        Fault::check(|error| unsafe { (functions.begin)(stream.as_raw(), like, &mut raw, error) })?;
        Ok(Self { graph: Graph { raw, functions }, stream, is_open: true, _alone: alone })
    }

    /// Ends the capture, and returns what was queued as a graph.
    pub(crate) fn end(mut self) -> Result<Graph, Fault> {
        self.close()?;
        let nothing = Graph { raw: ptr::null_mut(), functions: self.graph.functions };
        Ok(std::mem::replace(&mut self.graph, nothing))
    }

    fn close(&mut self) -> Result<(), Fault> {
        self.is_open = false;
        // SAFETY: the graph's capture is open on this stream, and `error` is valid for writes.
        Fault::check(|error| unsafe { (self.graph.functions.end)(self.graph.raw, self.stream.as_raw(), error) })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.is_open
            && let Err(fault) = self.close()
        {
            tracing::debug!(%fault, "a capture ended without a graph");
        }
    }
}

impl Graph {
    /// Queues the graph's kernels.
    pub(crate) fn replay(&self, stream: &Stream) -> Result<(), Fault> {
        // SAFETY: graph and stream are alive, and `error` is valid for writes.
        Fault::check(|error| unsafe { (self.functions.replay)(self.raw, stream.as_raw(), error) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: `self` owns the graph, its capture has ended, and nothing uses it afterwards.
            unsafe { (self.functions.free)(self.raw) }
        }
    }
}

/// Opens the library at the first call, which must be after libtorch_cuda was opened.
fn functions() -> Result<&'static RawGraphFunctions, Fault> {
    let mut known = FUNCTIONS.lock();
    if let Some(functions) = *known {
        return Ok(functions);
    }
    let functions = open()?;
    *known = Some(functions);
    Ok(functions)
}

fn open() -> Result<&'static RawGraphFunctions, Fault> {
    let unwritable = |error| Fault::Raised(format!("the library of CUDA graphs cannot be written: {error}"));
    let mut file = tempfile::NamedTempFile::new().map_err(unwritable)?;
    file.write_all(LIBRARY).map_err(unwritable)?;
    let path = CString::new(file.path().as_os_str().as_bytes()).map_err(|error| unwritable(error.into()))?;
    let mut functions = ptr::null();
    // SAFETY: `path` is NUL-terminated, and both results are valid for writes.
    Fault::check(|error| unsafe { ffi::weir_graph_open(path.as_ptr(), &mut functions, error) })?;
    // SAFETY: the library's table is constant and stays mapped, because the library is never closed.
    unsafe { functions.as_ref() }.ok_or_else(|| Fault::Raised("the library of CUDA graphs has no functions".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process never opens libtorch_cuda, without which the library does not open.
    #[test]
    fn without_cuda_there_are_no_graphs() {
        let Err(Fault::Raised(text)) = functions() else { panic!("the library opened") };
        assert!(text.contains("undefined symbol"), "{text}");
    }
}
