//! SIGHUP, the signal of a closed terminal: ignored by this process, as `nohup` asks, or not.

use std::fs;

/// Bit of SIGHUP in the masks of `/proc`: the first signal has the lowest.
const HANGUP: u64 = 1;

/// True if the process was started to ignore SIGHUP, or there is no `/proc` to tell: to ask the kernel directly
/// needs unsafe code.
pub(super) fn is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status");
    let mask = status.ok().and_then(|status| ignored_signals(&status));
    mask.is_none_or(|mask| mask & HANGUP != 0)
}

/// Mask of the signals that a process ignores, from its `/proc/*/status`.
fn ignored_signals(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_found_among_the_others() {
        let status = "Name:\tweir\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert_eq!(ignored_signals(status), Some(0x1001));
        assert_eq!(ignored_signals("Name:\tweir\n"), None);
        assert_eq!(ignored_signals("SigIgn:\tmany\n"), None);
    }
}
