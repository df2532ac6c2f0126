//! What libtorch leaves in memory from its start.
//!
//! Of libtorch's 300 MB of code, a server at work runs a few. Its start runs through 30 MB more, to register
//! every operator; those pages stay mapped, and counted, though no one comes back to them.

#![expect(unsafe_code, reason = "tells the kernel about a mapping")]

use std::ops::Range;
use std::sync::Once;

const LIBRARY: &str = "/libtorch_cpu.so";

static DONE: Once = Once::new();

/// Lets the kernel take the pages of libtorch's code back, once. What is run again comes back from
/// the page cache, 16 pages at a time; what is not stays out. To be called after libtorch has loaded
/// what it needs and before a warm-up, which brings back what a model runs.
pub(crate) fn forget() {
    DONE.call_once(|| {
        let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
            return;
        };
        for code in maps.lines().filter_map(code) {
            // SAFETY: the range is a private mapping of a file that can be read and run and not written:
            // its pages are the file's, and come back from there when they are touched.
            let refused = unsafe {
                libc::madvise(
                    code.start as *mut libc::c_void,
                    code.len(),
                    libc::MADV_DONTNEED,
                )
            };
            if refused != 0 {
                tracing::debug!("the pages of libtorch's start stay in memory");
            }
        }
    });
}

/// The addresses of a line of `/proc/self/maps`, if it is libtorch's code, as the file has it.
fn code(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (addresses, permissions) = (fields.next()?, fields.next()?);
    if permissions != "r-xp" || !line.ends_with(LIBRARY) {
        return None;
    }
    let (start, end) = addresses.split_once('-')?;
    let address = |hex| usize::from_str_radix(hex, 16).ok();
    Some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_libtorch_is_forgotten() {
        let of = |permissions, path| {
            code(&format!(
                "7f00-7fff {permissions} 00001000 fe:00 17   {path}"
            ))
        };
        assert_eq!(of("r-xp", "/x/lib/libtorch_cpu.so"), Some(0x7f00..0x7fff));
        assert_eq!(of("r--p", "/x/lib/libtorch_cpu.so"), None);
        assert_eq!(of("rwxp", "/x/lib/libtorch_cpu.so"), None);
        assert_eq!(of("r-xp", "/x/lib/libc.so.6"), None);
        assert_eq!(code("7f00-7fff r-xp 00000000 00:00 0"), None);
    }
}
