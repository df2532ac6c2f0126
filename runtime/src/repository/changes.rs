//! Decides which versions to load and to unload: pure functions of the last load attempts and the current files.

use std::collections::{BTreeMap, BTreeSet};

/// Outcome of the last attempt to load a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadOutcome {
    /// The load succeeded, and the version serves it.
    Loaded,
    /// The load failed; the version still serves the previous load.
    Kept,
    /// The load failed, and the version does not serve.
    Failed,
}

/// Condition for retrying a failed version whose files have not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// Retry, because a client requested the load.
    Failed,
    /// Do not retry: for a poll that finds the same files, the outcome would be the same.
    Never,
}

/// True if the text of a configuration file looks like the beginning of a file that is being rewritten: the text that
/// was in use before starts with it, and has more. An empty text and an absent file look so too.
///
/// Programs that rewrite a file in place empty it first, and a directory that is being replaced is absent for a moment.
pub(super) fn is_cut_off(text: &str, in_use: &str) -> bool {
    text.len() < in_use.trim_end().len() && in_use.starts_with(text)
}

/// The last load attempt of each version. `F` identifies the files and configuration that were loaded; `None` if they
/// changed during the load, so that the loaded state is unknown.
pub(super) type Attempts<F> = BTreeMap<u64, (Option<F>, LoadOutcome)>;

/// The versions that an inspection found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundVersions<F> {
    /// The versions that the version policy selects, and versions in service whose files still exist.
    pub fingerprints: BTreeMap<u64, F>,
    /// The versions that the version policy selects.
    pub wanted: BTreeSet<u64>,
}

/// Returns the new or changed versions to load, in ascending order. A version that stands in for a failed wanted one is
/// reloaded like a wanted one.
pub(super) fn to_load<F: PartialEq>(attempts: &Attempts<F>, found: &FoundVersions<F>, retry: Retry) -> Vec<u64> {
    let is_current = |version: &u64, fingerprint: &F| {
        attempts.get(version).is_some_and(|(last, outcome)| {
            last.as_ref() == Some(fingerprint)
                && match (outcome, retry) {
                    (LoadOutcome::Loaded, Retry::Failed | Retry::Never)
                    | (LoadOutcome::Kept | LoadOutcome::Failed, Retry::Never) => true,
                    (LoadOutcome::Kept | LoadOutcome::Failed, Retry::Failed) => false,
                }
        })
    };
    let failed = |version: &u64| matches!(attempts.get(version), Some((_, LoadOutcome::Failed)));
    let needs_stand_in = found.wanted.iter().any(failed);
    let changed = found.fingerprints.iter().filter(|(version, fingerprint)| {
        (needs_stand_in || found.wanted.contains(version)) && !is_current(version, fingerprint)
    });
    changed.map(|(version, _)| *version).collect()
}

/// Returns the versions to unload after the loads, in ascending order: those that are neither wanted nor stand in for a
/// wanted one. While a wanted version does not serve, other serving versions stand in for it: those whose files still
/// exist, or all of them if no wanted version serves.
pub(super) fn to_unload<F>(attempts: &Attempts<F>, found: &FoundVersions<F>) -> Vec<u64> {
    let serves = |version: &u64| {
        attempts.get(version).is_some_and(|(_, outcome)| match outcome {
            LoadOutcome::Loaded | LoadOutcome::Kept => true,
            LoadOutcome::Failed => false,
        })
    };
    let all_serve = found.wanted.iter().all(serves);
    let none_serves = !found.wanted.iter().any(serves);
    let stands_in =
        |version: &u64| serves(version) && !all_serve && (none_serves || found.fingerprints.contains_key(version));
    let unneeded = |version: &&u64| !found.wanted.contains(*version) && !stands_in(version);
    attempts.keys().filter(unneeded).copied().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::{btree_map, btree_set};
    use proptest::prelude::*;

    use super::LoadOutcome::{Failed, Kept, Loaded};
    use super::{Attempts, FoundVersions, LoadOutcome, Retry, is_cut_off, to_load, to_unload};

    fn attempts(of: &[(u64, char, LoadOutcome)]) -> Attempts<char> {
        let attempts = of.iter().map(|&(version, fingerprint, outcome)| (version, (Some(fingerprint), outcome)));
        attempts.collect()
    }

    fn found(fingerprints: &[(u64, char)], wanted: &[u64]) -> FoundVersions<char> {
        FoundVersions { fingerprints: fingerprints.iter().copied().collect(), wanted: wanted.iter().copied().collect() }
    }

    #[test]
    fn only_the_beginning_of_the_text_in_use_is_cut_off() {
        let in_use = "max_batch_size: 16\n";
        for text in ["", "max", "max_batch_size: 1"] {
            assert!(is_cut_off(text, in_use), "{text}");
        }
        for text in [in_use, "max_batch_size: 16", "max_batch_size: 8\n", "max_batch_size: 16\nbackend: \"pytorch\""] {
            assert!(!is_cut_off(text, in_use), "{text}");
        }
        assert!(!is_cut_off("", ""));
    }

    #[test]
    fn a_new_version_is_loaded() {
        let found = found(&[(1, 'a'), (3, 'a')], &[1, 3]);
        assert_eq!(to_load(&attempts(&[]), &found, Retry::Never), [1, 3]);
        let before = attempts(&[(1, 'a', Loaded)]);
        assert_eq!(to_load(&before, &found, Retry::Never), [3]);
    }

    #[test]
    fn an_unchanged_version_is_not_reloaded() {
        let (before, found) = (attempts(&[(1, 'a', Loaded)]), found(&[(1, 'a')], &[1]));
        assert!(to_load(&before, &found, Retry::Failed).is_empty());
        assert!(to_unload(&before, &found).is_empty());
    }

    #[test]
    fn only_the_changed_version_is_reloaded() {
        let before = attempts(&[(1, 'a', Loaded), (2, 'a', Loaded)]);
        let found = found(&[(1, 'a'), (2, 'b')], &[1, 2]);
        assert_eq!(to_load(&before, &found, Retry::Never), [2]);
    }

    #[test]
    fn a_removed_version_is_unloaded() {
        let after = attempts(&[(1, 'a', Loaded), (2, 'a', Failed), (3, 'a', Loaded)]);
        assert_eq!(to_unload(&after, &found(&[(3, 'a')], &[3])), [1, 2]);
    }

    #[test]
    fn a_failed_version_waits_for_a_change_or_a_request() {
        for outcome in [Failed, Kept] {
            let before = attempts(&[(1, 'a', outcome)]);
            let (same, other) = (found(&[(1, 'a')], &[1]), found(&[(1, 'b')], &[1]));
            assert!(to_load(&before, &same, Retry::Never).is_empty());
            assert_eq!(to_load(&before, &same, Retry::Failed), [1]);
            assert_eq!(to_load(&before, &other, Retry::Never), [1]);
        }
    }

    #[test]
    fn files_that_changed_during_a_load_are_loaded_again() {
        for outcome in [Loaded, Kept, Failed] {
            let before = BTreeMap::from([(1, (None, outcome))]);
            let found = found(&[(1, 'a')], &[1]);
            assert_eq!(to_load(&before, &found, Retry::Never), [1]);
        }
    }

    #[test]
    fn the_last_good_version_stands_in_for_a_broken_one() {
        let after = attempts(&[(1, 'a', Loaded), (2, 'a', Failed)]);
        let there = found(&[(1, 'a'), (2, 'a')], &[2]);
        assert!(to_unload(&after, &there).is_empty());
        let gone = found(&[(2, 'a')], &[2]);
        assert!(to_unload(&after, &gone).is_empty());
        let repaired = attempts(&[(1, 'a', Loaded), (2, 'b', Loaded)]);
        assert_eq!(to_unload(&repaired, &there), [1]);
    }

    #[test]
    fn a_stand_in_is_reloaded_when_its_files_change() {
        let before = attempts(&[(1, 'a', Loaded), (2, 'a', Failed)]);
        let found = found(&[(1, 'b'), (2, 'a')], &[2]);
        assert_eq!(to_load(&before, &found, Retry::Never), [1]);
    }

    #[test]
    fn a_removed_version_is_unloaded_if_another_wanted_one_serves() {
        let after = attempts(&[(1, 'a', Loaded), (2, 'a', Loaded), (3, 'a', Failed)]);
        assert_eq!(to_unload(&after, &found(&[(2, 'a'), (3, 'a')], &[2, 3])), [1]);
        let there = found(&[(1, 'a'), (2, 'a'), (3, 'a')], &[2, 3]);
        assert!(to_unload(&after, &there).is_empty());
    }

    fn outcome() -> impl Strategy<Value = LoadOutcome> {
        prop_oneof![Just(Loaded), Just(Kept), Just(Failed)]
    }

    proptest! {
        #[test]
        fn a_model_that_serves_continues_to_serve(
            after in btree_map(1_u64..6, (Just(Some('a')), outcome()), 0..6),
            wanted in btree_set(1_u64..6, 1..6),
            there in btree_set(1_u64..6, 0..6),
        ) {
            let serves = |version: &u64| after[version].1 != Failed;
            let there = wanted.union(&there).map(|version| (*version, 'a'));
            let found = FoundVersions { fingerprints: there.collect(), wanted };
            let unloaded = to_unload(&after, &found);
            let served = after.keys().filter(|version| serves(version)).count();
            let left = after.keys().filter(|version| serves(version) && !unloaded.contains(version));
            prop_assert_eq!(left.count() == 0, served == 0);
            prop_assert!(unloaded.iter().all(|version| !found.wanted.contains(version)));
            let complete = found.wanted.iter().all(|version| after.contains_key(version) && serves(version));
            if complete {
                prop_assert!(after.keys().all(|version| found.wanted.contains(version) || unloaded.contains(version)));
            }
        }

        #[test]
        fn a_poll_loads_nothing_that_was_already_tried(
            attempts in btree_map(1_u64..6, ((0..3).prop_map(Some), outcome()), 1..6),
        ) {
            let found = FoundVersions {
                fingerprints: attempts.iter().filter_map(|(version, (files, _))| files.map(|files| (*version, files))).collect(),
                wanted: attempts.keys().copied().collect(),
            };
            prop_assert!(to_load(&attempts, &found, Retry::Never).is_empty());
        }
    }
}
