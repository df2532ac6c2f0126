//! The allocator of the Rust side: jemalloc. libtorch keeps the C library's, whose per-thread reuse suits
//! tensors that are allocated and freed on one thread. Request bodies are allocated and freed on all threads;
//! for them the C library would keep up to 64 MiB free per thread, even after `malloc_trim`.

#![expect(unsafe_code, reason = "jemalloc reads its settings from a symbol of a fixed name")]

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's settings: its background thread returns memory to the system half a second after a burst,
/// long against the time between two bodies under load, which reuse it, and short against a scrape.
// SAFETY: jemalloc reads this name as a pointer to a C string, which a slice begins with; nothing else
// has the name, and it outlives the process.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub(crate) static SETTINGS: &[u8] = b"background_thread:true,dirty_decay_ms:500,muzzy_decay_ms:0\0";
