//! Progress of a fetch in bytes, for readers that wait for its end.

pub(crate) mod attempt;
pub(crate) mod report;
pub(crate) mod size;
