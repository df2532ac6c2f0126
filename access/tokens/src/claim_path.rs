//! The path of a value among the claims of a token.

use serde_json::{Map, Value};

/// Path of a claim: names separated by dots, as in `realm_access.roles`, or a JSON pointer (RFC 6901) for names that
/// contain dots, as in `/https:~1~1example.com~1roles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimPath {
    text: String,
    names: Vec<String>,
}

/// Maximum number of names in a path.
const MAX_NAMES: usize = 8;

impl ClaimPath {
    /// Reads a path; `None` if it is empty, has an empty name, or more than eight names.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let names: Vec<String> = match text.strip_prefix('/') {
            Some(pointer) => pointer.split('/').map(|name| name.replace("~1", "/").replace("~0", "~")).collect(),
            None => text.split('.').map(str::to_owned).collect(),
        };
        let is_valid = names.len() <= MAX_NAMES && names.iter().all(|name| !name.is_empty());
        is_valid.then(|| Self { text: text.to_owned(), names })
    }

    /// Returns the path as it is configured.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the value at the path.
    pub(crate) fn find<'a>(&self, claims: &'a Map<String, Value>) -> Option<&'a Value> {
        let (first, others) = self.names.split_first()?;
        others.iter().try_fold(claims.get(first)?, |value, name| value.as_object()?.get(name))
    }

    /// Returns true if a text at the path is a list, separated by spaces, as of OAuth's scopes (RFC 8693, 4.2). All
    /// other texts are one value, which may contain spaces.
    pub(crate) fn is_scope(&self) -> bool {
        self.names.last().is_some_and(|name| matches!(name.as_str(), "scope" | "scp"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_through_objects_and_through_names_with_dots() {
        let claims = serde_json::json!({ "a": { "b": 1 }, "a.b": 2, "https://x/y": { "z": 3 } });
        let claims = claims.as_object().unwrap();
        let find = |path: &str| ClaimPath::parse(path).unwrap().find(claims).and_then(Value::as_u64);
        assert_eq!(find("a.b"), Some(1));
        assert_eq!(find("/a.b"), Some(2));
        assert_eq!(find("/https:~1~1x~1y/z"), Some(3));
        assert_eq!(find("a.c"), None);
        assert_eq!(find("a.b.c"), None);
        for invalid in ["", "/", "a..b", ".a", "a.b.c.d.e.f.g.h.i"] {
            assert_eq!(ClaimPath::parse(invalid), None, "{invalid}");
        }
    }
}
