//! System shared memory that clients register: files of `/dev/shm`, read and written in place.
//!
//! Nothing is mapped. A mapping of a file that another process may truncate at any moment ends in SIGBUS,
//! and would need `unsafe`; a positioned read costs one copy, which the batch would make anyway.

mod error;
mod overlap;
mod table;

pub(crate) use error::SharedMemoryError;
pub(crate) use overlap::check_apart;
pub(crate) use table::{HeldRegions, RegionStatus, SharedMemory};

#[cfg(test)]
mod tests;
