//! Number and bytes of requests in a queue.

/// Limit of a queue, or its current content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimit {
    pub(crate) requests: usize,
    /// Bytes of the requests' bodies together.
    pub(crate) bytes: usize,
}
