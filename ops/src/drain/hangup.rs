//! Detects if this process ignores SIGHUP, the signal of a closed terminal, as `nohup` arranges.

use std::fs;

/// Bit of SIGHUP in the signal masks of `/proc`; signal 1 is the lowest bit.
const HANGUP: u64 = 1;

/// Returns true if the process was started with SIGHUP ignored, or if `/proc` cannot be read. Querying the kernel
/// directly would need unsafe code.
pub(super) fn is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status");
    let mask = status.ok().and_then(|status| ignored_signals(&status));
    mask.is_none_or(|mask| mask & HANGUP != 0)
}

/// Returns the mask of ignored signals from the text of a `/proc/*/status` file.
fn ignored_signals(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_parsed() {
        let status = "Name:\tweir\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert_eq!(ignored_signals(status), Some(0x1001));
        assert_eq!(ignored_signals("Name:\tweir\n"), None);
        assert_eq!(ignored_signals("SigIgn:\tmany\n"), None);
    }
}
