//! The name that a mistyped one probably stands for.

/// Most edits between two names that one may have been meant for the other.
const MAX_EDITS: usize = 3;

/// The candidate most similar to `written`, the first of equals; `None` where more than a third of each differs and
/// none begins with what was written.
pub fn nearest<'a>(candidates: impl IntoIterator<Item = &'a str>, written: &str) -> Option<&'a str> {
    let distances = candidates.into_iter().filter_map(|candidate| Some((distance(candidate, written)?, candidate)));
    let (_, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    Some(nearest)
}

/// Edits from one name to the other; a name of which the end is missing is as near as the farthest mistyped one.
fn distance(candidate: &str, written: &str) -> Option<usize> {
    let (length, written_length) = (candidate.chars().count(), written.chars().count());
    let allowed = MAX_EDITS.min(length.div_ceil(3));
    // Each character more or less is an edit. What strangers write may be long, and comparing takes time by its length.
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
    #[expect(clippy::disallowed_methods, reason = "the time that it takes is what is tested")]
    fn a_name_of_any_length_is_compared_at_once() {
        let (long, begun) = ("x".repeat(60_000), Instant::now());
        assert_eq!(nearest(["default/digits"; 200], &long), None);
        // Comparing takes a second each in a debug build.
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
