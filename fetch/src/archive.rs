//! Archives among the fetched files, and their unpacking.

pub(crate) mod packing;
pub(crate) mod unpack;
