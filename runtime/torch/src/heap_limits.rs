//! Limits of the C library's heap, which libtorch uses: set before it starts, and lowered while a model is dropped.

use std::ffi::c_int;

/// Largest block that the C library takes from its heap. It adjusts this and [`TRIM_THRESHOLD`] up to these
/// values when it sees such blocks freed, but stops adjusting both when one is set; so both are set.
pub const MMAP_THRESHOLD: c_int = 32 << 20;

/// Free bytes at the end of the heap that the C library keeps.
pub const TRIM_THRESHOLD: c_int = 2 * MMAP_THRESHOLD;

/// The C library's default for the least growth of its heap.
pub const GROWTH: c_int = 128 << 10;
