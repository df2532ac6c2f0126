//! Runs work that takes milliseconds without blocking the other tasks of its thread.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Size in bytes above which another thread takes over this thread's tasks while a body is parsed. Parsing the numbers
/// of a tensor takes some 10 ms per MiB, during which no other connection would be served.
const LARGE: usize = 256 << 10;

/// Runs the work on a body of this many bytes.
pub(super) fn run<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > LARGE && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}
