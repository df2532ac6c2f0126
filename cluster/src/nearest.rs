//! Suggestions for mistyped names.

/// Maximum number of edits between a mistyped name and its correction.
const MAX_EDITS: usize = 3;

/// Returns the candidate most similar to `written`; the first wins a tie. `None` if every candidate differs in more
/// than a third of its characters, or in more than three, and does not begin with `written`.
pub fn nearest<'a>(candidates: impl IntoIterator<Item = &'a str>, written: &str) -> Option<&'a str> {
    let distances = candidates.into_iter().filter_map(|candidate| Some((distance(candidate, written)?, candidate)));
    let (_, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    Some(nearest)
}

/// Returns the edit distance. A candidate that begins with `written` (an unfinished name) counts as far away as the
/// most distant accepted typo.
fn distance(candidate: &str, written: &str) -> Option<usize> {
    let (length, written_length) = (candidate.chars().count(), written.chars().count());
    let allowed = MAX_EDITS.min(length.div_ceil(3));
    // A difference in length is a lower bound for the edits. User input may be long and the comparison takes time in
    // proportion, so clearly different lengths are skipped.
    if length.abs_diff(written_length) <= allowed {
        let edits = strsim::damerau_levenshtein(candidate, written);
        if edits <= allowed {
            return Some(edits);
        }
    }
    let is_beginning = written_length >= 2 && candidate.starts_with(written);
    is_beginning.then_some(MAX_EDITS)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mistyped_and_unfinished_names_are_recognised() {
        let names = ["digits", "default/digits", "minilm"];
        assert_eq!(nearest(names, "digit"), Some("digits"));
        assert_eq!(nearest(names, "dgits"), Some("digits"));
        assert_eq!(nearest(names, "mini"), Some("minilm"));
        assert_eq!(nearest(names, "resnet"), None);
        assert_eq!(nearest([], "digits"), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test measures how long the comparison takes")]
    fn a_name_of_any_length_is_compared_at_once() {
        let (long, begun) = ("x".repeat(60_000), Instant::now());
        assert_eq!(nearest(["default/digits"; 200], &long), None);
        // Without the length check each comparison takes a second in a debug build.
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    proptest! {
        #[test]
        fn a_name_is_nearest_to_itself(names in proptest::collection::vec("[a-z]{1,9}", 1..9), at in 0_usize..9) {
            let written = &names[at % names.len()];
            let found = nearest(names.iter().map(String::as_str), written);
            prop_assert_eq!(found, Some(written.as_str()));
        }
    }
}
