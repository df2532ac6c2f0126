//! The number of a queue's first items that make the next batch.

/// Limits of the next batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    /// The largest weight worth running now.
    pub(crate) limit: usize,
    /// Sizes that go at once, ascending.
    pub(crate) preferred: &'a [usize],
    pub(crate) delay: QueueDelay,
}

/// The state of Triton's `max_queue_delay_microseconds` for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueDelay {
    /// No item has waited its whole delay: only a preferred or full batch goes.
    Running,
    /// There is none: something goes, a preferred size if there is one.
    None,
    /// An item has waited its whole delay: all goes that fits.
    Over,
}

/// Number of the items with these weights, in order, to run now; `None` to wait. The first is
/// always among them, so that an item over the limit runs alone instead of never.
///
/// This is Triton's rule: the longest prefix of a preferred size, or else the last one before the
/// largest preferred size would be passed.
pub(crate) fn batch_prefix(weights: impl Iterator<Item = usize>, rule: &Rule<'_>) -> Option<usize> {
    let largest = rule.preferred.last().copied().unwrap_or(usize::MAX);
    let (mut count, mut total) = (0_usize, 0_usize);
    let (mut best, mut full) = (None, false);
    for weight in weights {
        let grown = total.saturating_add(weight);
        if count > 0 && grown > rule.limit {
            full = true;
            break;
        }
        if count > 0 && grown > largest && best.is_none() {
            best = Some(count);
        }
        (count, total) = (count + 1, grown);
        if rule.preferred.binary_search(&total).is_ok() {
            best = Some(count);
        }
        if total >= rule.limit {
            full = true;
            break;
        }
    }
    let all = (count > 0).then_some(count);
    match rule.delay {
        QueueDelay::Over => all,
        QueueDelay::None => best.or(all),
        QueueDelay::Running => best.or(all.filter(|_| full || total >= largest)),
    }
}
