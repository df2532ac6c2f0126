//! The server's own memory: jemalloc. libtorch keeps the C library's, whose per-thread reuse suits
//! tensors that come and go on one thread; request bodies come and go on all threads, and there the C
//! library keeps up to 64 MiB free per thread for good, whatever `malloc_trim` is told.

#![expect(
    unsafe_code,
    reason = "jemalloc looks its settings up under a symbol's name"
)]

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Half a second after a burst its memory goes back to the system, by a thread of jemalloc's own:
/// long against the time between two bodies under load, which reuse it, and short against a scrape.
// SAFETY: jemalloc reads this name as a pointer to a C string, which a slice begins with; nothing else
// has the name, and it outlives the process.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub(crate) static SETTINGS: &[u8] = b"background_thread:true,dirty_decay_ms:500,muzzy_decay_ms:0\0";
