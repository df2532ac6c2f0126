//! Patterns of names, each a name or a prefix with a final `*`, and of services.

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

/// A service, by the names of its namespace and of its InferenceService.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceId<'a> {
    /// Namespace of the service.
    pub namespace: &'a str,
    /// Name of the InferenceService, without that of a component.
    pub name: &'a str,
}

/// Pattern that matches every service.
pub(crate) const EVERY_SERVICE: &str = "*";

impl ServiceId<'_> {
    /// Returns true for a pattern `NAMESPACE/NAME`, each with an optional final `*`, or `*`, that matches the service.
    pub(crate) fn matches(self, pattern: &str) -> bool {
        match pattern.split_once('/') {
            Some((namespace, name)) => matches(namespace, self.namespace) && matches(name, self.name),
            None => pattern == EVERY_SERVICE,
        }
    }
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
