//! Decision on the next step of a rotation. Pure.

use std::time::Duration;

use super::CertificateOptions;
use crate::certificate::{SKEW, ServingPair};
use crate::pairs::Pairs;

/// The step that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing: the current pair is still good.
    Nothing,
    /// Create a first pair, because there is no usable one.
    Create,
    /// Create the pair that will follow the current one.
    Next,
    /// Start to use the next pair.
    Switch,
}

/// Returns the step that is due, given the pairs, the time in seconds since 1970, and the time for which every holder
/// and verifier could read these pairs.
pub(crate) fn due(pairs: Option<&Pairs>, options: &CertificateOptions, now: u64, known_for: Option<Duration>) -> Due {
    let Some(pairs) = pairs else { return Due::Create };
    let next = pairs.next.as_ref().filter(|next| is_usable(next, &options.names, now));
    let is_settled = known_for.is_some_and(|time| time >= options.settle);
    let is_usable = is_usable(&pairs.current, &options.names, now);
    match next {
        Some(_) if is_settled || !is_usable => Due::Switch,
        None if !is_usable => Due::Create,
        // The next pair takes the former authority's place, so every process must have stopped using the former pair
        // before.
        None if pairs.former_authority.is_some() && !is_settled => Due::Nothing,
        None if now >= pairs.current.begins.saturating_add(options.renew_after.as_secs()) => Due::Next,
        Some(_) | None => Due::Nothing,
    }
}

/// Returns true if the pair is valid now, for all names. A pair that begins in the future by more than the skew was
/// made by a wrong clock. One that is less far ahead comes from another process's clock; replacing it would make the
/// two processes replace each other's pairs in turn.
fn is_usable(pair: &ServingPair, names: &[String], now: u64) -> bool {
    let serves_all = names.iter().all(|name| pair.names.contains(name));
    let valid_from = pair.begins.saturating_sub(SKEW.as_secs());
    serves_all && (valid_from..pair.ends).contains(&now)
}

#[cfg(test)]
mod tests;
