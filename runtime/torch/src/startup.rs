//! Releases memory that libtorch needed only when it started, for a load and for the first runs.
//!
//! A running server uses a few of the 300 MB of libtorch's code. Another 30 MB run once at start, to register every
//! operator, and the loader reads 17 MB of tables to link libtorch; a load and a model's first runs compile code. These
//! pages stay mapped and resident although nothing uses them again.

#![expect(unsafe_code, reason = "advises the kernel about a mapping, and trims the C library's heap")]

use std::ffi::c_int;
use std::ops::Range;

use parking_lot::Mutex;

/// Largest block that the C library takes from its heap, in bytes. By default the C library raises this limit and
/// [`TRIM_THRESHOLD`] up to these values when it sees such blocks freed. Setting either one turns that off for both, so
/// both are set.
pub const MMAP_THRESHOLD: c_int = 32 << 20;

/// Free bytes at the end of the heap that the C library keeps.
pub const TRIM_THRESHOLD: c_int = 2 * MMAP_THRESHOLD;

/// The C library's default for the least growth of its heap, in bytes.
pub const HEAP_GROWTH: c_int = 128 << 10;

const LIBRARY: &str = "/libtorch_cpu.so";

/// Drops the resident pages of libtorch's code and tables, and trims the C library's heap. Pages that are used again
/// are read from the page cache, 16 at a time, which delays the next request by some tenths of a millisecond. Called
/// after the first runs.
pub(crate) fn release_memory() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else {
        return;
    };
    for range in unmodified_mappings(&maps) {
        // SAFETY: the range is a private read-only mapping of a file without modified pages, so its pages are read from
        // the file again when they are touched.
        let refused = unsafe { libc::madvise(range.start as *mut libc::c_void, range.len(), libc::MADV_DONTNEED) };
        if refused != 0 {
            tracing::debug!("cannot release the memory that only the start of libtorch needed");
        }
    }
    trim_own_heap();
}

/// Trims like [`trim_heap`], and also returns the free memory at the end of the calling thread's heap, of which the C
/// library otherwise keeps up to [`TRIM_THRESHOLD`] bytes.
fn trim_own_heap() {
    drop(TrimWhenDropped::default());
}

/// Returns the free memory between the used blocks of all heaps of the C library to the system, which takes a tenth of
/// a millisecond per megabyte.
pub(crate) fn trim_heap() {
    // SAFETY: the function may be called at any time, from any thread.
    unsafe { libc::malloc_trim(0) };
}

/// Size of a block that is large enough for the C library to look at the end of the block's heap when the block is
/// freed.
const LOOK_AT_END: usize = 128 << 10;

/// Trims the heap when it is dropped. Otherwise the C library would keep an unloaded model's memory, except blocks of 32
/// MiB and more.
///
/// [`trim_heap`] returns the memory at the end of a heap only for the first thread's heap; each other heap could keep 64
/// MiB. The C library looks at the end of a heap only when a block of that heap is freed. So this struct holds a block
/// of the heap of its creator's thread, which also allocates the weights. The block's memory is never touched, so it
/// takes one page.
#[derive(Debug)]
pub(crate) struct TrimWhenDropped {
    block: *mut libc::c_void,
}

// SAFETY: the block is only freed, which any thread may do.
unsafe impl Send for TrimWhenDropped {}
// SAFETY: a reference gives no access to the block.
unsafe impl Sync for TrimWhenDropped {}

/// Held while the C library's trim threshold is lowered. Without it, the first of two threads would restore the
/// threshold while the other still trims.
static LOWERED: Mutex<()> = Mutex::new(());

impl Default for TrimWhenDropped {
    fn default() -> Self {
        // SAFETY: the block is freed once, and nothing else uses it. Without memory for it the pointer is null, which
        // may be freed too.
        Self { block: std::hint::black_box(unsafe { libc::malloc(LOOK_AT_END) }) }
    }
}

impl Drop for TrimWhenDropped {
    fn drop(&mut self) {
        let _lowered = LOWERED.lock();
        set_trim_threshold(HEAP_GROWTH);
        // This joins small free blocks with the end of a heap, so the end is looked at afterwards.
        trim_heap();
        // SAFETY: the block was allocated by `default`, and is freed only here.
        unsafe { libc::free(self.block) };
        set_trim_threshold(TRIM_THRESHOLD);
    }
}

fn set_trim_threshold(bytes: libc::c_int) {
    // SAFETY: the function may be called at any time, from any thread.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, bytes) };
}

/// Finds the address ranges of libtorch's mappings in `/proc/self/smaps` whose pages are unmodified.
fn unmodified_mappings(maps: &str) -> Vec<Range<usize>> {
    let (mut found, mut current) = (Vec::new(), None);
    for line in maps.lines() {
        match line.strip_prefix("Anonymous:") {
            // Anonymous pages are pages that the loader wrote before it made the mapping read-only.
            Some(own) if own.split_ascii_whitespace().next() == Some("0") => {
                found.extend(current.take());
            }
            Some(_) => current = None,
            None if line.ends_with(LIBRARY) => current = read_only(line),
            None => {}
        }
    }
    found
}

/// Parses the address range in a mapping's first line; `None` unless the mapping is private and read-only.
fn read_only(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (addresses, permissions) = (fields.next()?, fields.next()?);
    if !matches!(permissions, "r-xp" | "r--p") {
        return None;
    }
    let (start, end) = addresses.split_once('-')?;
    let address = |hex| usize::from_str_radix(hex, 16).ok();
    Some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// 480 blocks of this size are 48 MB, which is less than the C library keeps free in one heap.
    const BLOCK: usize = 100 << 10;
    /// Size of a block that the C library does not join with free memory beside it when the block is freed.
    const SMALL: usize = 64;

    /// Allocates filled blocks in the heap of the calling thread.
    fn allocate(count: usize, size: usize) -> Vec<usize> {
        let block = || {
            // SAFETY: exactly the allocated bytes are filled.
            unsafe {
                let block = libc::malloc(size);
                assert!(!block.is_null());
                libc::memset(block, 1, size);
                block as usize
            }
        };
        (0..count).map(|_| block()).collect()
    }

    fn resident_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        4096 * statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    }

    fn free(blocks: Vec<usize>) {
        for block in blocks {
            // SAFETY: each block was allocated by `allocate`, and is freed once.
            unsafe { libc::free(block as *mut libc::c_void) };
        }
    }

    #[test]
    fn the_heaps_of_all_threads_return_what_is_freed() {
        set_trim_threshold(TRIM_THRESHOLD);
        trim_heap();
        let both = Barrier::new(2);
        let fill = || {
            both.wait();
            let trim = TrimWhenDropped::default();
            let blocks = allocate(480, BLOCK);
            both.wait();
            (trim, blocks)
        };
        let models = thread::scope(|scope| {
            let threads = [scope.spawn(fill), scope.spawn(fill)];
            threads.map(|thread| thread.join().unwrap())
        });
        let full = resident_bytes();
        for (trim, blocks) in models {
            free(blocks);
            drop(trim);
        }
        let returned = full.saturating_sub(resident_bytes());
        assert!(returned > 80 << 20, "{returned}");
    }

    /// The C library keeps small blocks apart from the free memory beside them until the heap is trimmed.
    #[test]
    fn small_blocks_at_the_end_of_a_heap_do_not_keep_the_memory_before_them() {
        set_trim_threshold(TRIM_THRESHOLD);
        let fill = || {
            let trim = TrimWhenDropped::default();
            // The first few freed blocks of a size stay with their thread.
            let first = allocate(16, SMALL);
            let large = allocate(480, BLOCK);
            (trim, first, large, allocate(16, SMALL))
        };
        let (trim, first, large, last) = thread::spawn(fill).join().unwrap();
        let full = resident_bytes();
        free(first);
        free(large);
        free(last);
        drop(trim);
        let returned = full.saturating_sub(resident_bytes());
        assert!(returned > 40 << 20, "{returned}");
    }

    #[test]
    fn a_thread_returns_what_it_has_freed_at_the_end_of_its_heap() {
        set_trim_threshold(TRIM_THRESHOLD);
        let returned = thread::spawn(|| {
            free(allocate(480, BLOCK));
            trim_heap();
            let kept = resident_bytes();
            trim_own_heap();
            kept.saturating_sub(resident_bytes())
        });
        let returned = returned.join().unwrap();
        assert!(returned > 40 << 20, "{returned}");
    }

    fn mapping(permissions: &str, path: &str, own: usize) -> String {
        format!(
            "7f00-7fff {permissions} 00001000 fe:00 17   {path}\nRss: 8 kB\nAnonymous:      {own} kB\nVmFlags: rd\n"
        )
    }

    #[test]
    fn only_unmodified_mappings_of_libtorch_are_found() {
        let torch = "/x/lib/libtorch_cpu.so";
        for (permissions, path, own, found_it) in [
            ("r-xp", torch, 0, true),
            ("r--p", torch, 0, true),
            ("r--p", torch, 4, false),
            ("r-xp", torch, 4, false),
            ("rw-p", torch, 0, false),
            ("rwxp", torch, 0, false),
            ("r-xs", torch, 0, false),
            ("r-xp", "/x/lib/libc.so.6", 0, false),
            ("r--p", "", 0, false),
        ] {
            let found = unmodified_mappings(&mapping(permissions, path, own));
            let expected = found_it.then_some(0x7f00..0x7fff);
            assert_eq!(found.first(), expected.as_ref(), "{permissions} {path} {own}");
        }
    }

    #[test]
    fn each_mapping_has_its_own_lines() {
        let torch = "/x/lib/libtorch_cpu.so";
        let maps = [
            mapping("r--p", torch, 4),
            mapping("r--p", "/x/lib/libc.so.6", 0),
            mapping("r-xp", torch, 0),
            mapping("rw-p", torch, 0),
        ];
        assert_eq!(unmodified_mappings(&maps.concat()).len(), 1);
    }
}
