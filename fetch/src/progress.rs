//! How far a fetch has come, in bytes, for those that wait for it.

pub(crate) mod attempt;
pub(crate) mod report;
pub(crate) mod size;
