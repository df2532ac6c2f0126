//! Parses the URI of a model on the Hugging Face Hub.

/// A model on the Hub, and a revision of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Repository of the model: `ORG/NAME`.
    pub(crate) id: String,
    /// Branch, tag or commit.
    pub(crate) revision: String,
}

/// Scheme of the Hub's URIs.
pub(crate) const SCHEME: &str = "hf://";

/// Revision of a URI that names none.
const DEFAULT_REVISION: &str = "main";

/// Maximum length of a model's ID, as the Hub has it.
const MAX_ID: usize = 96;

/// Maximum length of a revision: that of a reference in git's storage on Linux.
const MAX_REVISION: usize = 255;

impl Address {
    /// Parses `hf://ORG/NAME`, `hf://ORG/NAME:REVISION` (KServe's form) and `hf://ORG/NAME@REVISION`.
    ///
    /// # Errors
    /// The rule that the URI breaks, as a clause.
    pub(crate) fn parse(uri: &str) -> Result<Self, &'static str> {
        let address = uri.strip_prefix(SCHEME).ok_or("the URI does not begin with hf://")?;
        let (id, revision) = match address.find([':', '@']) {
            Some(at) => (&address[..at], &address[at + 1..]),
            None => (address, DEFAULT_REVISION),
        };
        check_id(id)?;
        check_revision(revision)?;
        Ok(Self { id: id.to_owned(), revision: revision.to_owned() })
    }
}

fn check_id(id: &str) -> Result<(), &'static str> {
    if id.starts_with("datasets/") || id.starts_with("spaces/") {
        return Err("only models can be fetched from the Hub, not datasets or spaces");
    }
    let parts: Vec<_> = id.split('/').collect();
    if parts.len() != 2 {
        return Err("the URI must be hf://ORG/NAME, hf://ORG/NAME:REVISION or hf://ORG/NAME@REVISION");
    }
    if id.len() > MAX_ID || !parts.iter().all(|part| is_name(part)) {
        return Err("the organisation and the name may have letters, digits, `-`, `_` and `.`, 96 characters together");
    }
    Ok(())
}

fn is_name(part: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !part.is_empty() && part.chars().all(is_allowed) && !part.starts_with(['.', '-']) && !part.contains("..")
}

fn check_revision(revision: &str) -> Result<(), &'static str> {
    if revision.is_empty() {
        return Err("the revision is empty: leave out the `:` or `@`, or name a branch, tag or commit after it");
    }
    let is_allowed =
        |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | ':' | '@' | '\\' | '~' | '^' | '*' | '[');
    if revision.len() > MAX_REVISION || !revision.chars().all(is_allowed) || revision.contains("..") {
        return Err("the revision is not the name of a branch, tag or commit");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_and_revisions_are_parsed() {
        for (uri, id, revision) in [
            ("hf://meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.2-1B", "main"),
            ("hf://a/b:v1.0", "a/b", "v1.0"),
            ("hf://a/b@v1.0", "a/b", "v1.0"),
            ("hf://a/b:refs/pr/1", "a/b", "refs/pr/1"),
            ("hf://a/b@5d0f2e8a7f1d1b49d1e6b8e4d4a0c5f0f8a7c111", "a/b", "5d0f2e8a7f1d1b49d1e6b8e4d4a0c5f0f8a7c111"),
        ] {
            let expected = Address { id: id.to_owned(), revision: revision.to_owned() };
            assert_eq!(Address::parse(uri), Ok(expected), "{uri}");
        }
    }

    #[test]
    fn other_uris_are_refused_with_the_rule() {
        let long = format!("hf://a/{}", "b".repeat(95));
        for (uri, expected) in [
            ("hf://", "must be hf://ORG/NAME"),
            ("hf://gpt2", "must be hf://ORG/NAME"),
            ("hf://a/b/model.safetensors", "must be hf://ORG/NAME"),
            ("hf://datasets/a/b", "only models"),
            ("hf:///b", "letters, digits"),
            ("hf://a/", "letters, digits"),
            ("hf://a/..", "letters, digits"),
            ("hf://a/b?x", "letters, digits"),
            (&long, "96 characters"),
            ("hf://a/b:", "the revision is empty"),
            ("hf://a/b@", "the revision is empty"),
            ("hf://a/b:../x", "not the name of a branch"),
            ("hf://a/b:x y", "not the name of a branch"),
            ("hf://a/b:v1@x", "not the name of a branch"),
        ] {
            let error = Address::parse(uri).unwrap_err();
            assert!(error.contains(expected), "{uri}: {error}");
        }
    }
}
