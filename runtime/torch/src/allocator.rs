//! The allocator of the Rust side: jemalloc. Request bodies are allocated and freed on all threads, and the C library
//! would keep up to 64 MiB of them free per thread, even after `malloc_trim`. libtorch keeps the C library's allocator,
//! whose per-thread reuse suits tensors that are allocated and freed on one thread.

#![expect(unsafe_code, reason = "jemalloc reads its settings from a symbol of a fixed name")]

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's settings: a background thread returns unused memory to the system half a second after a burst. That is
/// long compared with the time between two bodies under load, which reuse the memory, and short compared with a scrape
/// interval of metrics.
// SAFETY: jemalloc reads the symbol of this name as a pointer to a C string, and a slice starts with such a pointer.
// Nothing else exports the name, and the static lives as long as the process.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub(crate) static SETTINGS: &[u8] = b"background_thread:true,dirty_decay_ms:500,muzzy_decay_ms:0\0";
