//! Decides how many of a queue's first items make the next batch.

/// Limits of the next batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    /// Maximum weight worth running now.
    pub(crate) limit: usize,
    /// Sizes that run at once, ascending.
    pub(crate) preferred: &'a [usize],
    pub(crate) delay: QueueDelay,
}

/// State of Triton's `max_queue_delay_microseconds` for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueDelay {
    /// No item has waited for its whole delay: only a preferred or full batch runs.
    Running,
    /// The policy has no delay: a batch runs, of a preferred size if possible.
    None,
    /// An item has waited for its whole delay, or no more items are expected: everything that fits runs.
    Over,
}

/// Returns the number of items with these weights, in order, to run now; `None` means to wait. The first item is always
/// included, so that an item over the limit runs alone instead of never.
///
/// This is Triton's rule: the longest prefix whose weight is a preferred size; if there is none, the longest prefix
/// whose weight does not exceed the largest preferred size.
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
