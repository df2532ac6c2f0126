//! HTTP/2 below the library: sockets, frames and stream tasks.

pub(crate) mod buffered;
pub(crate) mod frame_budget;
pub(crate) mod streams;
