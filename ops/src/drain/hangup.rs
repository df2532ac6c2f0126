//! Whether a closed terminal ends this process.

use std::fs;

/// SIGHUP's bit in the masks of `/proc`: the first signal has the lowest.
const HANGUP: u64 = 1;

/// Whether SIGHUP would end us. To ask the kernel directly needs unsafe code; where there is no `/proc` to say
/// it, nobody knows that we may catch it, and it stays as it is.
pub(super) fn ends_us() -> bool {
    let status = fs::read_to_string("/proc/self/status");
    status.is_ok_and(|status| ignored(&status).is_some_and(|mask| mask & HANGUP == 0))
}

/// The mask of the signals that a process ignores, of its `/proc/*/status`.
fn ignored(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_found_among_the_others() {
        let status =
            "Name:\tweir\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert_eq!(ignored(status), Some(0x1001));
        assert_eq!(ignored("Name:\tweir\n"), None);
        assert_eq!(ignored("SigIgn:\tmany\n"), None);
    }
}
