//! System shared memory that clients register: files in `/dev/shm`, read and written in place.
//!
//! Regions are not mapped. If another process truncated a mapped file, access would end in SIGBUS, and a mapping needs
//! `unsafe`. A positioned read costs one copy, which the batch would make anyway.

mod error;
mod overlap;
mod table;

pub(crate) use error::SharedMemoryError;
pub(crate) use overlap::check_apart;
pub(crate) use table::{PinnedRegions, RegionStatus, SharedMemory};

#[cfg(test)]
mod tests;
