//! Suggestions for misspelt names.

/// Maximum number of edits between a misspelt name and its suggestion.
const MAX_EDITS: usize = 3;

/// Returns the candidate most similar to `written`; the first wins a tie. `None` if no candidate is similar enough.
pub(crate) fn nearest<'a>(candidates: impl IntoIterator<Item = &'a str>, written: &str) -> Option<&'a str> {
    let written = written.to_lowercase();
    candidates
        .into_iter()
        .filter_map(|candidate| Some((edits(&candidate.to_lowercase(), &written)?, candidate)))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Returns the number of edits between a candidate and the written name; `None` if more than a third of the candidate
/// differs.
fn edits(candidate: &str, written: &str) -> Option<usize> {
    let (length, written_length) = (candidate.chars().count(), written.chars().count());
    let allowed = MAX_EDITS.min(length.div_ceil(3));
    if length.abs_diff(written_length) > allowed {
        return None;
    }
    let edits = strsim::damerau_levenshtein(candidate, written);
    (edits <= allowed).then_some(edits)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_the_most_similar_name() {
        let known = ["containers", "initContainers", "env", "minReplicas", "os"];
        assert_eq!(nearest(known, "contaners"), Some("containers"));
        assert_eq!(nearest(known, "minreplicas"), Some("minReplicas"));
        assert_eq!(nearest(known, "evn"), Some("env"));
        assert_eq!(nearest(known, "image"), None);
    }
}
