//! Which versions to load and which to unload: pure, from the last attempts and from what is there now.

use std::collections::BTreeMap;

/// Outcome of the last attempt to load a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadOutcome {
    Loaded,
    /// The load failed; the version before it may still serve.
    Failed,
}

/// Condition for a new attempt at a failed version whose files did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// A client asked for the load.
    Failed,
    /// A poll that finds the same files: the outcome would be the same.
    Never,
}

/// Versions to load (new or changed) and versions to unload, each in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Loaded first, beside what serves now.
    pub load: Vec<u64>,
    /// Unloaded once all of `load` serve.
    pub unload: Vec<u64>,
}

/// Compares the last attempts with what is there. `F` identifies a version's files and configuration.
pub(super) fn decide<F: PartialEq>(
    attempts: &BTreeMap<u64, (F, LoadOutcome)>,
    found: &BTreeMap<u64, F>,
    retry: Retry,
) -> Changes {
    let is_current = |version: &u64, fingerprint: &F| {
        attempts.get(version).is_some_and(|(last, outcome)| {
            last == fingerprint
                && match (outcome, retry) {
                    (LoadOutcome::Loaded, _) | (LoadOutcome::Failed, Retry::Never) => true,
                    (LoadOutcome::Failed, Retry::Failed) => false,
                }
        })
    };
    let load = found
        .iter()
        .filter(|(version, fingerprint)| !is_current(version, fingerprint));
    Changes {
        load: load.map(|(version, _)| *version).collect(),
        unload: attempts
            .keys()
            .filter(|version| !found.contains_key(version))
            .copied()
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Changes, LoadOutcome, Retry, decide};

    fn check(
        attempts: &[(u64, char, LoadOutcome)],
        found: &[(u64, char)],
        retry: Retry,
        (load, unload): (&[u64], &[u64]),
    ) {
        let attempts = attempts
            .iter()
            .map(|&(version, fingerprint, outcome)| (version, (fingerprint, outcome)));
        let expected = Changes {
            load: load.to_vec(),
            unload: unload.to_vec(),
        };
        assert_eq!(
            decide(&attempts.collect(), &found.iter().copied().collect(), retry),
            expected
        );
    }

    #[test]
    fn a_new_version_loads() {
        check(&[], &[(1, 'a'), (3, 'a')], Retry::Never, (&[1, 3], &[]));
        check(
            &[(1, 'a', LoadOutcome::Loaded)],
            &[(1, 'a'), (2, 'a')],
            Retry::Never,
            (&[2], &[]),
        );
    }

    #[test]
    fn an_unchanged_version_stays() {
        check(
            &[(1, 'a', LoadOutcome::Loaded)],
            &[(1, 'a')],
            Retry::Failed,
            (&[], &[]),
        );
    }

    #[test]
    fn a_changed_version_reloads_alone() {
        let attempts = [(1, 'a', LoadOutcome::Loaded), (2, 'a', LoadOutcome::Loaded)];
        check(&attempts, &[(1, 'a'), (2, 'b')], Retry::Never, (&[2], &[]));
    }

    #[test]
    fn a_removed_version_unloads() {
        let attempts = [(1, 'a', LoadOutcome::Loaded), (2, 'a', LoadOutcome::Failed)];
        check(&attempts, &[], Retry::Never, (&[], &[1, 2]));
        check(&attempts, &[(3, 'a')], Retry::Never, (&[3], &[1, 2]));
    }

    #[test]
    fn a_failed_version_waits_for_a_change_or_a_request() {
        check(
            &[(1, 'a', LoadOutcome::Failed)],
            &[(1, 'a')],
            Retry::Never,
            (&[], &[]),
        );
        check(
            &[(1, 'a', LoadOutcome::Failed)],
            &[(1, 'a')],
            Retry::Failed,
            (&[1], &[]),
        );
        check(
            &[(1, 'a', LoadOutcome::Failed)],
            &[(1, 'b')],
            Retry::Never,
            (&[1], &[]),
        );
    }
}
