//! The process's two allocators: jemalloc for the Rust side, and the C library's heap for libtorch, which is prepared
//! before libtorch starts.
//!
//! Request bodies are allocated and freed on all threads, and the C library would keep up to 64 MiB of them free per
//! thread, even after `malloc_trim`. libtorch keeps the C library's allocator, whose per-thread reuse suits tensors that
//! are allocated and freed on one thread.
//!
//! When libtorch starts, it allocates 52 MB in small blocks, several for each operator that it registers. With pages of
//! 4 KiB this costs 17 000 page faults and 400 growths of the heap: about 25 ms of the 0.3 s until a small model is
//! ready.

#![expect(
    unsafe_code,
    reason = "configures both allocators, one by a symbol and one before main, and advises the kernel about its memory"
)]

use weir_runtime_torch::{HEAP_GROWTH, MMAP_THRESHOLD, TRIM_THRESHOLD};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's settings: a background thread returns unused memory to the system half a second after a burst. That is
/// long compared with the time between two bodies under load, which reuse the memory, and short compared with a scrape
/// interval of metrics.
// SAFETY: jemalloc reads the symbol of this name as a pointer to a C string, and a slice starts with such a pointer.
// Nothing else exports the name, and the static lives as long as the process.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub(crate) static SETTINGS: &[u8] = b"background_thread:true,dirty_decay_ms:500,muzzy_decay_ms:0\0";

/// Bytes of heap that libtorch fills when it starts, in whole huge pages. Any more would stay allocated and unused.
const FILLED: usize = 52 << 20;

/// Size of a huge page, in bytes.
const HUGE_PAGE: usize = 2 << 20;

/// Function that the loader calls before the initialisers of all libraries, of which libtorch's takes longest.
// SAFETY: the section `.preinit_array` holds functions of this type. The C library is already linked when it runs, and
// `prepare` needs nothing else.
#[used]
#[unsafe(link_section = ".preinit_array")]
static BEFORE_LIBRARIES: extern "C" fn() = prepare;

extern "C" fn prepare() {
    // SAFETY: the process still has only one thread. The advised memory belongs to the heap, and the kernel may ignore
    // the advice.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD);
        libc::mallopt(libc::M_TOP_PAD, FILLED as libc::c_int);
        let first = libc::malloc(1);
        let start = (first as usize).next_multiple_of(HUGE_PAGE);
        libc::madvise(start as *mut libc::c_void, FILLED - HUGE_PAGE, libc::MADV_HUGEPAGE);
        libc::free(first);
        libc::mallopt(libc::M_TOP_PAD, HEAP_GROWTH);
    }
}
