//! Where a queue is cut: how many of its first items make the next batch.

/// What may be cut off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    /// The largest weight worth running now.
    pub(crate) limit: usize,
    /// Sizes that go at once, ascending.
    pub(crate) preferred: &'a [usize],
    pub(crate) patience: Patience,
}

/// Whether the items can wait for companions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Only a preferred or full batch goes.
    Wait,
    /// Something goes; a preferred size if there is one.
    Now,
    /// One has waited its whole delay: all goes that fits.
    Overdue,
}

/// How many of the items with these weights, in order, to run now; `None` to wait. The first is
/// always among them, so that an item over the limit runs alone instead of never.
///
/// This is Triton's rule: the longest prefix of a preferred size, or else the last one before the
/// largest preferred size would be passed.
pub(crate) fn cut(weights: impl Iterator<Item = usize>, rule: &Rule<'_>) -> Option<usize> {
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
    match rule.patience {
        Patience::Overdue => all,
        Patience::Now => best.or(all),
        Patience::Wait => best.or(all.filter(|_| full || total >= largest)),
    }
}
