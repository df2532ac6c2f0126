//! Limits of the C library's heap, which libtorch uses: set before libtorch starts, and lowered while a model is
//! dropped.

use std::ffi::c_int;

/// Largest block that the C library takes from its heap, in bytes. By default the C library raises this limit and
/// [`TRIM_THRESHOLD`] up to these values when it sees such blocks freed. Setting either one turns that off for both, so
/// both are set.
pub const MMAP_THRESHOLD: c_int = 32 << 20;

/// Free bytes at the end of the heap that the C library keeps.
pub const TRIM_THRESHOLD: c_int = 2 * MMAP_THRESHOLD;

/// The C library's default for the least growth of its heap, in bytes.
pub const GROWTH: c_int = 128 << 10;
