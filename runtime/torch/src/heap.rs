//! Prepares the C library's heap, which libtorch uses, before libtorch starts.
//!
//! When libtorch starts, it allocates 52 MB in small blocks, several for each operator that it registers. With pages of
//! 4 KiB this costs 17 000 page faults and 400 growths of the heap: about 25 ms of the 0.3 s until a small model is
//! ready.

#![expect(
    unsafe_code,
    reason = "runs before main, configures the C library's allocator, and advises the kernel about its memory"
)]

use weir_runtime_torch::heap_limits::{GROWTH, MMAP_THRESHOLD, TRIM_THRESHOLD};

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
        libc::mallopt(libc::M_TOP_PAD, GROWTH);
    }
}
