//! Patterns of names: a name, or a prefix with a final `*`.

/// Returns true if the pattern matches the name.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

/// Returns true for a pattern with a final `*`, which may match several names.
pub(crate) fn is_prefix(pattern: &str) -> bool {
    pattern.ends_with('*')
}

/// Returns true for text with at most one `*`, at the end.
pub(crate) fn is_valid(pattern: &str) -> bool {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    !pattern.is_empty() && pattern.len() <= crate::MAX_NAME && !name.contains('*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_final_star_stands_for_other_text() {
        assert!(matches("a", "a") && !matches("a", "ab") && !matches("ab", "a"));
        assert!(matches("a*", "a") && matches("a*", "ab") && !matches("a*", "b"));
        assert!(matches("*", "") && matches("*", "anything"));
        for valid in ["a", "*", "a*", "system:serviceaccount:a:*"] {
            assert!(is_valid(valid), "{valid}");
        }
        for invalid in ["", "**", "*a", "a*b", "a**"] {
            assert!(!is_valid(invalid), "{invalid}");
        }
    }
}
