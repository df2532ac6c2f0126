//! Decision on the next step of a rotation. Pure.

use std::time::Duration;

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

/// Returns the step that is due, given the pairs, the names to serve, the time, and how long API servers have trusted
/// the pairs' authorities.
pub(crate) fn due(
    pairs: Option<&Pairs>,
    names: &[String],
    now: u64,
    trusted_for: Option<Duration>,
    settle: Duration,
) -> Due {
    let Some(pairs) = pairs else { return Due::Create };
    let next = pairs.next.as_ref().filter(|next| is_usable(next, names, now));
    let is_settled = trusted_for.is_some_and(|time| time >= settle);
    let is_usable = is_usable(&pairs.current, names, now);
    match next {
        Some(_) if is_settled || !is_usable => Due::Switch,
        None if !is_usable => Due::Create,
        None if is_late(&pairs.current, now) => Due::Next,
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

/// Returns true if two thirds of the pair's lifetime are over.
fn is_late(pair: &ServingPair, now: u64) -> bool {
    let life = pair.ends.saturating_sub(pair.begins);
    now >= pair.begins.saturating_add(life / 3 * 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(900);
    const SETTLE: Duration = Duration::from_secs(10);

    fn pair(begins: u64) -> ServingPair {
        ServingPair {
            authority: format!("authority {begins}\n"),
            certificate: String::new(),
            key: String::new(),
            names: vec!["a".to_owned()],
            begins,
            ends: begins + LIFETIME.as_secs(),
        }
    }

    fn names() -> Vec<String> {
        vec!["a".to_owned()]
    }

    #[test]
    fn a_pair_is_followed_after_two_thirds_of_its_life() {
        let pairs = Pairs::of(pair(0));
        let at = |now| due(Some(&pairs), &names(), now, Some(SETTLE), SETTLE);
        assert_eq!(due(None, &names(), 0, None, SETTLE), Due::Create);
        assert_eq!(at(599), Due::Nothing);
        assert_eq!(at(600), Due::Next);
        assert_eq!(at(900), Due::Create);
        let other = due(Some(&pairs), &["b".to_owned()], 1, None, SETTLE);
        assert_eq!(other, Due::Create);
    }

    #[test]
    fn a_pair_of_a_clock_slightly_ahead_is_used_and_one_of_a_wrong_clock_is_not() {
        let pairs = Pairs::of(pair(1_000_000));
        let at = |now| due(Some(&pairs), &names(), now, Some(SETTLE), SETTLE);
        assert_eq!(at(999_400), Due::Nothing);
        assert_eq!(at(1_000_000 - SKEW.as_secs()), Due::Nothing);
        assert_eq!(at(1_000_000 - SKEW.as_secs() - 1), Due::Create);
    }

    #[test]
    fn the_next_pair_waits_until_it_is_trusted() {
        let pairs = Pairs::of(pair(0)).with_next(pair(600));
        let after = |trusted_for| due(Some(&pairs), &names(), 610, trusted_for, SETTLE);
        assert_eq!(after(None), Due::Nothing);
        assert_eq!(after(Some(Duration::from_secs(9))), Due::Nothing);
        assert_eq!(after(Some(SETTLE)), Due::Switch);
        let expired = due(Some(&pairs), &names(), 900, None, SETTLE);
        assert_eq!(expired, Due::Switch);
        let switched = pairs.switched();
        assert_eq!(switched.bundle(), "authority 0\nauthority 600\n");
        assert_eq!(due(Some(&switched), &names(), 900, None, SETTLE), Due::Nothing);
    }

    proptest! {
        /// Holds however late each check is, up to a tenth of the lifetime, where each write becomes known at the next
        /// check.
        #[test]
        fn the_current_pair_is_always_valid_and_trusted(
            pauses in prop::collection::vec(1..90_u64, 50..100),
        ) {
            let (mut now, mut pairs) = (1_000_000, None::<Pairs>);
            let mut trusted: Option<(String, u64)> = None;
            for pause in pauses {
                let trusted_for = trusted.as_ref().and_then(|(bundle, since)| {
                    let is_all = pairs.as_ref().is_some_and(|pairs| pairs.bundle() == *bundle);
                    is_all.then(|| Duration::from_secs(now - since))
                });
                let was_first = pairs.is_none();
                let step = due(pairs.as_ref(), &names(), now, trusted_for, SETTLE);
                pairs = match (step, pairs) {
                    (Due::Nothing, pairs) => pairs,
                    (Due::Create, _) => Some(Pairs::of(pair(now))),
                    (Due::Next, pairs) => pairs.map(|pairs| pairs.with_next(pair(now))),
                    (Due::Switch, pairs) => pairs.map(Pairs::switched),
                };
                let pairs = pairs.as_ref().unwrap();
                prop_assert!(was_first || step != Due::Create);
                prop_assert!((pairs.current.begins..pairs.current.ends).contains(&now));
                if let Some((bundle, _)) = &trusted {
                    prop_assert!(bundle.contains(&pairs.current.authority));
                }
                if trusted.as_ref().is_none_or(|(bundle, _)| *bundle != pairs.bundle()) {
                    trusted = Some((pairs.bundle(), now));
                }
                now += pause;
            }
        }
    }
}
