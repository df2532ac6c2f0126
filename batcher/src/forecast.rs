//! The forecast of when waiting work will be done.

use std::time::Duration;

/// The time after which devices that are busy for another `busy[i]` each have also done `backlog`
/// between them, working on it as soon as they are free. With no backlog that is when the first is
/// free. No device counts as one that is free.
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
        // `i` devices are free by now; together they do this much until the next joins them.
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
