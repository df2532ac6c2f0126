//! The name a typo was meant to be.

/// Candidates further from what was written than this are no help.
const MAX_EDITS: usize = 3;

/// The candidate most like `written`; the first of equals.
pub(crate) fn nearest<'a>(
    candidates: impl IntoIterator<Item = &'a str>,
    written: &str,
) -> Option<&'a str> {
    let written = written.to_lowercase();
    candidates
        .into_iter()
        .filter_map(|candidate| Some((edits(&candidate.to_lowercase(), &written)?, candidate)))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// How far a name is from what was written; `None` for too far. More than a third of the name
/// changed is another name.
fn edits(candidate: &str, written: &str) -> Option<usize> {
    let allowed = MAX_EDITS.min(candidate.chars().count().div_ceil(3));
    let edits = strsim::damerau_levenshtein(candidate, written);
    (edits <= allowed).then_some(edits)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_what_was_meant() {
        let known = ["containers", "initContainers", "env", "minReplicas", "os"];
        assert_eq!(nearest(known, "contaners"), Some("containers"));
        assert_eq!(nearest(known, "minreplicas"), Some("minReplicas"));
        assert_eq!(nearest(known, "evn"), Some("env"));
        assert_eq!(nearest(known, "image"), None);
    }
}
