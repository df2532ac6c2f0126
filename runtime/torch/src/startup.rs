//! What libtorch leaves in memory from its start, from a load and from first runs.
//!
//! Of libtorch's 300 MB of code, a server at work runs a few. Its start runs through 30 MB more, to register
//! every operator, and the loader reads 17 MB of tables to link it; a load and the first runs of a model compile. Those
//! pages stay mapped, and counted, though no one comes back to them.

#![expect(
    unsafe_code,
    reason = "tells the kernel about a mapping, and the C library to give back what is free"
)]

use std::ops::Range;

const LIBRARY: &str = "/libtorch_cpu.so";

/// Lets the kernel take the pages of libtorch's code and tables back, and the C library give back what it
/// keeps free. What is used again comes back from the page cache, 16 pages at a time; what is not stays
/// out: the first request after it waits some tenths of a millisecond for that. To be called after the
/// first runs.
pub(crate) fn forget() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else {
        return;
    };
    for range in file_pages(&maps) {
        // SAFETY: the range is a private mapping of a file that may not be written and of which no page
        // was: its pages are the file's, and come back from there when they are touched.
        let refused = unsafe {
            libc::madvise(
                range.start as *mut libc::c_void,
                range.len(),
                libc::MADV_DONTNEED,
            )
        };
        if refused != 0 {
            tracing::debug!("the pages of libtorch's start stay in memory");
        }
    }
    give_back();
}

/// Has the C library give back what it keeps free, wherever it lies; that takes a tenth of a millisecond a
/// megabyte.
pub(crate) fn give_back() {
    // SAFETY: it may be called at any time, from any thread.
    unsafe { libc::malloc_trim(0) };
}

/// The addresses of those mappings of libtorch, as `/proc/self/smaps` lists them, that are as the file is.
fn file_pages(maps: &str) -> Vec<Range<usize>> {
    let (mut found, mut current) = (Vec::new(), None);
    for line in maps.lines() {
        match line.strip_prefix("Anonymous:") {
            // Pages of its own are what the loader wrote before it forbade writing.
            Some(own) if own.split_ascii_whitespace().next() == Some("0") => {
                found.extend(current.take());
            }
            Some(_) => current = None,
            None if line.ends_with(LIBRARY) => current = unwritable(line),
            None => {}
        }
    }
    found
}

/// The addresses of a mapping's first line, if it is private and may not be written.
fn unwritable(line: &str) -> Option<Range<usize>> {
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
    use super::*;

    fn mapping(permissions: &str, path: &str, own: usize) -> String {
        format!(
            "7f00-7fff {permissions} 00001000 fe:00 17   {path}\nRss: 8 kB\nAnonymous:      {own} kB\nVmFlags: rd\n"
        )
    }

    #[test]
    fn only_what_libtorchs_file_can_bring_back_is_forgotten() {
        let torch = "/x/lib/libtorch_cpu.so";
        for (permissions, path, own, forgotten) in [
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
            let found = file_pages(&mapping(permissions, path, own));
            let expected = forgotten.then_some(0x7f00..0x7fff);
            assert_eq!(
                found.first(),
                expected.as_ref(),
                "{permissions} {path} {own}"
            );
        }
    }

    #[test]
    fn each_mapping_is_judged_by_its_own_lines() {
        let torch = "/x/lib/libtorch_cpu.so";
        let maps = [
            mapping("r--p", torch, 4),
            mapping("r--p", "/x/lib/libc.so.6", 0),
            mapping("r-xp", torch, 0),
            mapping("rw-p", torch, 0),
        ];
        assert_eq!(file_pages(&maps.concat()).len(), 1);
    }
}
