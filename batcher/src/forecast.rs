//! Forecasts when queued work will be done.

use std::time::Duration;

/// Returns the time after which all devices have finished their current work and, together, `backlog`. Device `i` is
/// busy for another `busy[i]`, and each works on the backlog as soon as it is free. Without backlog, this is the time
/// until the first device is free. An empty `busy` counts as one free device.
///
/// Sorts `busy`.
#[must_use]
pub fn cleared_after(busy: &mut [Duration], backlog: Duration) -> Duration {
    busy.sort_unstable();
    let Some(&first) = busy.first() else {
        return backlog;
    };
    let mut level = first;
    let mut left = backlog;
    for (i, &next) in busy.iter().enumerate().skip(1) {
        // Here `i` devices are free; this is the work they do together until the next one joins them.
        let until_next = times(next - level, i);
        if until_next >= left {
            return level + share(left, i);
        }
        left -= until_next;
        level = next;
    }
    level + share(left, busy.len())
}

fn times(span: Duration, devices: usize) -> Duration {
    span.saturating_mul(u32::try_from(devices).unwrap_or(u32::MAX))
}

fn share(work: Duration, devices: usize) -> Duration {
    work / u32::try_from(devices).unwrap_or(u32::MAX)
}
