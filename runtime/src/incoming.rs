//! A request before it is submitted: its body, its bytes in shared memory, and the limits on both.

pub(crate) mod charged_bytes;
pub(crate) mod compression;
pub(crate) mod off_reactor;
pub(crate) mod request;
pub(crate) mod request_body;
pub(crate) mod restriction;
pub(crate) mod shared_memory;
