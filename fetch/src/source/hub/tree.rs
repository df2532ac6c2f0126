//! The list of a model's files, as the Hub sends it.

use serde::Deserialize;

use crate::archive::packing::Packing;
use crate::digest::Digest;
use crate::store::{Object, RelativePath};

/// A commit that a revision means.
#[derive(Debug, Deserialize)]
pub(super) struct Revision {
    /// Hash of the commit.
    pub(super) sha: String,
}

/// An entry of a page.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    /// Hash of the content in git: of the file itself, or of the pointer to a large file.
    oid: String,
    #[serde(default)]
    size: u64,
    lfs: Option<LargeFile>,
}

/// A large file, whose content is outside git.
#[derive(Debug, Deserialize)]
struct LargeFile {
    /// SHA-256 of the content.
    oid: String,
    size: u64,
}

impl Revision {
    /// Returns true if the hash has the form of one: 40 or 64 hexadecimal digits.
    pub(super) fn is_valid(&self) -> bool {
        matches!(self.sha.len(), 40 | 64) && self.sha.bytes().all(|digit| digit.is_ascii_hexdigit())
    }
}

impl Entry {
    /// Returns the file of the entry; `None` for a directory.
    ///
    /// # Errors
    /// The path, and the rule that it breaks.
    pub(super) fn object(self) -> Result<Option<Object>, (String, &'static str)> {
        if self.kind != "file" {
            return Ok(None);
        }
        let path = RelativePath::parse(&self.path).map_err(|reason| (self.path.clone(), reason))?;
        let digest = self.lfs.as_ref().and_then(|lfs| Digest::of_hex(&lfs.oid));
        Ok(Some(Object {
            path,
            size: Some(self.lfs.map_or(self.size, |lfs| lfs.size)),
            // Not the commit: a file that a new commit did not change is not downloaded again.
            version: Some(self.oid),
            digest,
            packing: Packing::None,
            key: self.path,
        }))
    }

    /// Returns the path of the entry in the repository.
    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

/// Returns the query of the next page in a header `Link`; `None` on the last page. The rest of the link is not used: a
/// mirror may pass on a link to another host, and the host gets the user's token.
pub(super) fn next_page(link: &str) -> Option<&str> {
    let is_next = |part: &&str| part.split(';').skip(1).any(|rel| rel.trim() == "rel=\"next\"");
    let next = link.split(", ").find(is_next)?;
    let (_, query) = next.trim().strip_prefix('<')?.split_once('>')?.0.split_once('?')?;
    Some(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &str) -> Result<Option<Object>, (String, &'static str)> {
        serde_json::from_str::<Entry>(json).unwrap().object()
    }

    #[test]
    fn files_have_the_size_and_digest_of_their_content() {
        let digest = "ab".repeat(32);
        let large = format!(
            r#"{{"type":"file","path":"a/b.bin","size":9,"oid":"x","lfs":{{"oid":"{digest}","size":10,"pointerSize":9}}}}"#
        );
        let file = object(&large).unwrap().unwrap();
        assert_eq!((file.size, file.key.as_str()), (Some(10), "a/b.bin"));
        assert_eq!((file.digest, file.version.as_deref()), (Digest::of_hex(&digest), Some("x")));
        let small = object(r#"{"type":"file","path":"config.json","size":9,"oid":"x"}"#).unwrap().unwrap();
        assert_eq!((small.size, small.digest), (Some(9), None));
        assert_eq!(object(r#"{"type":"directory","path":"a","size":0,"oid":"x"}"#), Ok(None));
        let error = object(r#"{"type":"file","path":"a/../../b","size":9,"oid":"x"}"#).unwrap_err();
        assert_eq!(error, ("a/../../b".to_owned(), "which leads out of the directory"));
    }

    #[test]
    fn the_next_page_is_in_the_link() {
        let link = r#"<https://huggingface.co/api/models/a/b/tree/c?recursive=true&cursor=X%3D>; rel="next""#;
        assert_eq!(next_page(link), Some("recursive=true&cursor=X%3D"));
        let both = r#"<https://a/?x>; rel="prev", <https://a/?y>; rel="next""#;
        assert_eq!(next_page(both), Some("y"));
        assert_eq!(next_page(r#"<https://a/?x>; rel="prev""#), None);
        assert_eq!(next_page(""), None);
    }

    #[test]
    fn a_commit_is_a_hash() {
        for (sha, expected) in
            [("a".repeat(40), true), ("main".to_owned(), false), (format!("../{}", "a".repeat(37)), false)]
        {
            assert_eq!(Revision { sha }.is_valid(), expected);
        }
    }
}
