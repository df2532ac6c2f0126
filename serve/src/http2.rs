//! Additions to the HTTP/2 library: buffered sockets, a limit on frames per poll, and resets of stalled streams.

pub(crate) mod buffered;
pub(crate) mod frame_budget;
pub(crate) mod streams;
