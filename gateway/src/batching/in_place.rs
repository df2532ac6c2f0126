//! Work of milliseconds on a thread that others wait for.

use tokio::runtime::{Handle, RuntimeFlavor};

/// A body of more bytes is read while another thread takes over what this one has to do: the numbers of a tensor take some
/// 10 ms per MiB, during which no other connection would be served.
const LARGE: usize = 256 << 10;

/// Does the work on a body of this many bytes.
pub(super) fn run<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > LARGE && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}
