//! Releases memory that libtorch needed only when it started, for a load and for the first runs.
//!
//! A running server uses a few of the 300 MB of libtorch's code. Another 30 MB run once at start, to register every
//! operator, and the loader reads 17 MB of tables to link libtorch; a load and a model's first runs compile code. These
//! pages stay mapped and resident although nothing uses them again.

#![expect(unsafe_code, reason = "advises the kernel about a mapping, and trims the C library's heap")]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::heap_limits::{GROWTH, TRIM_THRESHOLD};

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

/// Size of a block that is large enough for the C library to look at the end of the heap when the block is freed.
const LOOK_AT_END: usize = 128 << 10;

/// Trims like [`trim_heap`], and also returns the free memory at the end of the calling thread's heap, of which the C
/// library otherwise keeps up to [`TRIM_THRESHOLD`] bytes.
fn trim_own_heap() {
    let trim = TrimWhenDropped::default();
    trim.begin();
    // SAFETY: the block is freed once, and nothing uses it.
    unsafe { libc::free(std::hint::black_box(libc::malloc(LOOK_AT_END))) };
}

/// Number of models and instances that are being dropped. The lock also orders the settings of the C library's heap.
static DROPS: Mutex<usize> = Mutex::new(0);

/// Returns the free memory of the C library's heap to the system, which takes a tenth of a millisecond per megabyte.
pub(crate) fn trim_heap() {
    // SAFETY: the function may be called at any time, from any thread.
    unsafe { libc::malloc_trim(0) };
}

/// Trims the heap when it is dropped. It is the last field of structs that hold a module, whose weights are free by
/// then. Otherwise the C library would keep an unloaded model's memory, except blocks of 32 MiB and more.
#[derive(Debug, Default)]
pub(crate) struct TrimWhenDropped {
    begun: AtomicBool,
}

impl TrimWhenDropped {
    /// Makes the C library return memory that becomes free at the end of any heap at once, until this value is dropped.
    /// [`trim_heap`] alone does so only for the first thread's heap; each other heap could keep 64 MiB. Several models
    /// may be dropped at a time, so the last one restores the setting.
    pub(crate) fn begin(&self) {
        if !self.begun.swap(true, Ordering::Relaxed) {
            let mut drops = DROPS.lock().unwrap_or_else(PoisonError::into_inner);
            *drops += 1;
            set_trim_threshold(GROWTH);
        }
    }
}

impl Drop for TrimWhenDropped {
    fn drop(&mut self) {
        trim_heap();
        if self.begun.load(Ordering::Relaxed) {
            let mut drops = DROPS.lock().unwrap_or_else(PoisonError::into_inner);
            *drops -= 1;
            if *drops == 0 {
                set_trim_threshold(TRIM_THRESHOLD);
            }
        }
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

    const BLOCK: usize = 100 << 10;

    /// Allocates blocks in a thread's own heap, 48 MB together, which is less than the C library keeps free in one
    /// heap.
    fn allocate() -> Vec<usize> {
        let block = || {
            // SAFETY: exactly the allocated bytes are filled.
            unsafe {
                let block = libc::malloc(BLOCK);
                assert!(!block.is_null());
                libc::memset(block, 1, BLOCK);
                block as usize
            }
        };
        (0..480).map(|_| block()).collect()
    }

    fn resident_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        4096 * statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    }

    #[test]
    fn the_heaps_of_all_threads_return_what_is_freed() {
        trim_heap();
        let both = Barrier::new(2);
        let fill = || {
            both.wait();
            let blocks = allocate();
            both.wait();
            blocks
        };
        let blocks = thread::scope(|scope| {
            let threads = [scope.spawn(fill), scope.spawn(fill)];
            threads.map(|thread| thread.join().unwrap()).concat()
        });
        let full = resident_bytes();
        let trim = TrimWhenDropped::default();
        trim.begin();
        // Another model whose drop ends in between must not restore the setting.
        let other = TrimWhenDropped::default();
        other.begin();
        drop(other);
        for block in blocks {
            // SAFETY: each block was allocated above, and is freed once.
            unsafe { libc::free(block as *mut libc::c_void) };
        }
        drop(trim);
        let returned = full.saturating_sub(resident_bytes());
        assert!(returned > 80 << 20, "{returned}");
    }

    #[test]
    fn a_thread_returns_what_it_has_freed_at_the_end_of_its_heap() {
        set_trim_threshold(TRIM_THRESHOLD);
        let returned = thread::spawn(|| {
            let blocks = allocate();
            for block in blocks {
                // SAFETY: each block was allocated above, and is freed once.
                unsafe { libc::free(block as *mut libc::c_void) };
            }
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
