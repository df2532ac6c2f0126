//! Check that the documentation lists every reason of a condition.

use std::collections::BTreeSet;

use weir_cluster::FailureReason;

const PAGE: &str = include_str!("../../../docs/kubernetes.md");
const SOURCES: [&str; 2] = [include_str!("conditions.rs"), include_str!("../status.rs")];

/// Returns the quoted single words with a capital initial: reasons and conditions.
fn words(source: &str) -> BTreeSet<&str> {
    let quoted = source.split('"').skip(1).step_by(2);
    let is_reason = |text: &&str| {
        let mut letters = text.chars();
        letters.next().is_some_and(char::is_uppercase) && letters.all(char::is_alphanumeric)
    };
    quoted.filter(is_reason).collect()
}

#[test]
fn the_page_says_what_to_do_for_every_reason() {
    let mut reasons: BTreeSet<&str> = SOURCES.into_iter().flat_map(words).collect();
    reasons.extend(FailureReason::ALL.map(FailureReason::label));
    // These are severities, and KServe's name of a deployment mode.
    for other in ["Info", "Warning", "Standard"] {
        assert!(reasons.remove(other), "{other}");
    }
    let rows: Vec<_> = PAGE.lines().filter(|line| line.starts_with("| `")).collect();
    for reason in reasons {
        let named = format!("`{reason}`");
        assert!(rows.iter().any(|row| row.contains(&named)), "{reason}");
    }
}
