//! The C library's heap, where libtorch's memory lies, made ready before libtorch starts.
//!
//! Its start fills 52 MB of small pieces, one for each operator it registers. In pages of 4 KiB these are 17 000
//! faults and 400 growths of the heap: some 25 ms of the 0.3 s until a small model is ready.

#![expect(
    unsafe_code,
    reason = "runs before main, sets the C library's allocator up, and advises the kernel about its memory"
)]

use std::ffi::c_int;

/// What libtorch's start fills of the heap, in whole huge pages: no more, or it would hold what nobody uses.
const FILLED: usize = 52 << 20;

/// A huge page.
const HUGE: usize = 2 << 20;

/// The largest that the C library takes from its heap, and how much of it it keeps free: as far as it gets by
/// itself in time, when it sees pieces of that size freed. Setting either ends that search, hence both are set.
const LARGEST: c_int = 32 << 20;
const KEPT: c_int = 2 * LARGEST;

/// By how much the C library lets its heap grow at once, if it is told nothing.
const GROWTH: c_int = 128 << 10;

/// The loader calls this before all libraries' own beginnings, of which libtorch's is the long one.
// SAFETY: the section takes functions of this type; the C library is linked by then, and what is called needs
// nothing else.
#[used]
#[unsafe(link_section = ".preinit_array")]
static BEFORE_LIBRARIES: extern "C" fn() = prepare;

extern "C" fn prepare() {
    // SAFETY: there is one thread yet; the memory advised about is the heap's, and what becomes of the advice is
    // no error.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        libc::mallopt(libc::M_TOP_PAD, FILLED as c_int);
        let first = libc::malloc(1);
        let start = (first as usize).next_multiple_of(HUGE);
        libc::madvise(
            start as *mut libc::c_void,
            FILLED - HUGE,
            libc::MADV_HUGEPAGE,
        );
        libc::free(first);
        libc::mallopt(libc::M_TOP_PAD, GROWTH);
    }
}
