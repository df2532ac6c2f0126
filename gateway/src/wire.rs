//! Protocols and headers of requests, their deadlines, and counts by protocol.

pub(crate) mod counters;
pub(crate) mod deadline;
pub(crate) mod headers;
pub(crate) mod protocol;
