//! What to do when a model is looked at again: pure, from what was tried before and what is there now.

use std::collections::BTreeMap;

/// How the last attempt to load a version ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It serves.
    Loaded,
    /// It failed; what was there before may still serve.
    Failed,
}

/// Whether what failed is tried again although nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// Someone asked for it.
    Failed,
    /// Only a new look at the same files: the outcome would be the same.
    Never,
}

/// Versions to load (new or changed) and versions to put to rest, each in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Load these, beside what serves now.
    pub load: Vec<u64>,
    /// Then put these to rest.
    pub rest: Vec<u64>,
}

/// Compares what was tried with what is there. `F` identifies a version's files and configuration.
pub(super) fn decide<F: PartialEq>(
    tried: &BTreeMap<u64, (F, Outcome)>,
    found: &BTreeMap<u64, F>,
    retry: Retry,
) -> Changes {
    let stands = |version: &u64, fingerprint: &F| {
        tried.get(version).is_some_and(|(last, outcome)| {
            last == fingerprint
                && match (outcome, retry) {
                    (Outcome::Loaded, _) | (Outcome::Failed, Retry::Never) => true,
                    (Outcome::Failed, Retry::Failed) => false,
                }
        })
    };
    let load = found
        .iter()
        .filter(|(version, fingerprint)| !stands(version, fingerprint));
    Changes {
        load: load.map(|(version, _)| *version).collect(),
        rest: tried
            .keys()
            .filter(|version| !found.contains_key(version))
            .copied()
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Changes, Outcome, Retry, decide};

    fn check(
        tried: &[(u64, char, Outcome)],
        found: &[(u64, char)],
        retry: Retry,
        (load, rest): (&[u64], &[u64]),
    ) {
        let tried = tried
            .iter()
            .map(|&(version, print, outcome)| (version, (print, outcome)));
        let expected = Changes {
            load: load.to_vec(),
            rest: rest.to_vec(),
        };
        assert_eq!(
            decide(&tried.collect(), &found.iter().copied().collect(), retry),
            expected
        );
    }

    #[test]
    fn what_is_new_loads() {
        check(&[], &[(1, 'a'), (3, 'a')], Retry::Never, (&[1, 3], &[]));
        check(
            &[(1, 'a', Outcome::Loaded)],
            &[(1, 'a'), (2, 'a')],
            Retry::Never,
            (&[2], &[]),
        );
    }

    #[test]
    fn what_is_the_same_stays() {
        check(
            &[(1, 'a', Outcome::Loaded)],
            &[(1, 'a')],
            Retry::Failed,
            (&[], &[]),
        );
    }

    #[test]
    fn what_changed_reloads_alone() {
        let tried = [(1, 'a', Outcome::Loaded), (2, 'a', Outcome::Loaded)];
        check(&tried, &[(1, 'a'), (2, 'b')], Retry::Never, (&[2], &[]));
    }

    #[test]
    fn what_is_gone_rests() {
        let tried = [(1, 'a', Outcome::Loaded), (2, 'a', Outcome::Failed)];
        check(&tried, &[], Retry::Never, (&[], &[1, 2]));
        check(&tried, &[(3, 'a')], Retry::Never, (&[3], &[1, 2]));
    }

    #[test]
    fn what_failed_waits_for_a_change_or_a_request() {
        check(
            &[(1, 'a', Outcome::Failed)],
            &[(1, 'a')],
            Retry::Never,
            (&[], &[]),
        );
        check(
            &[(1, 'a', Outcome::Failed)],
            &[(1, 'a')],
            Retry::Failed,
            (&[1], &[]),
        );
        check(
            &[(1, 'a', Outcome::Failed)],
            &[(1, 'b')],
            Retry::Never,
            (&[1], &[]),
        );
    }
}
