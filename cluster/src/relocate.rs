//! Replacement of model paths in the arguments of a command.

/// Replaces the path `from` by `to` in a text, where it stands alone or is a prefix of a longer path. A container then
/// finds its model at another location.
#[must_use]
pub fn relocate(text: &str, from: &str, to: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(from).filter(|_| !from.is_empty()) {
        let (before, after) = (&rest[..at], &rest[at + from.len()..]);
        let is_in_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        let begins = !before.ends_with(|c: char| is_in_name(c) || c == '/');
        let ends = !after.starts_with(is_in_name);
        out.extend([before, if begins && ends { to } else { from }]);
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_paths_are_replaced() {
        let moved = |text: &str| relocate(text, "/mnt/models", "/opt/m");
        assert_eq!(moved("--dir=/mnt/models"), "--dir=/opt/m");
        assert_eq!(moved("/mnt/models/a:/mnt/models"), "/opt/m/a:/opt/m");
        for other in ["/mnt/models-cache", "/a/mnt/models", "/mnt/models2", "/mnt/model"] {
            assert_eq!(moved(other), other);
        }
        assert_eq!(relocate("a", "", "b"), "a");
    }
}
