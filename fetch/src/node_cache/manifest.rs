//! The list of an entry's files.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::digest::Digest;
use crate::store::RelativePath;

/// Maximum number of files and directories, as a fetch has it.
const MAX_ITEMS: usize = 100_000;

/// The files and directories of an entry. Every path is relative, and none leads out of the entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryManifest {
    /// The files, in the order in which their bytes follow.
    #[serde(deserialize_with = "bounded")]
    pub files: Vec<CachedFile>,
    /// The paths of directories without files.
    #[serde(deserialize_with = "bounded")]
    pub directories: Vec<String>,
}

/// A file of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachedFile {
    /// Path below the target, with `/` between its parts.
    pub path: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-256 of the content in hexadecimal digits; `None` while the file is being stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl EntryManifest {
    /// Parses a manifest. The error is a clause that says which rule it breaks.
    ///
    /// # Errors
    /// Fails for text that is no manifest, too many files, a path that leads out of the entry, and a path that two files
    /// need.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(json).map_err(|error| format!("the list of files: {error}"))?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Returns the size of all files in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |total, file| total.saturating_add(file.size))
    }

    /// Checks the rules that [`EntryManifest::parse`] lists.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.files.len() + self.directories.len() > MAX_ITEMS {
            return Err(format!("the entry has more than {MAX_ITEMS} files"));
        }
        let paths = || self.files.iter().map(|file| &file.path).chain(&self.directories);
        for path in paths() {
            RelativePath::parse(path).map_err(|rule| format!("the entry has the file {path:?}, {rule}"))?;
        }
        let is_no_digest = |digits: &str| Digest::of_hex(digits).is_none();
        if let Some(file) = self.files.iter().find(|file| file.sha256.as_deref().is_some_and(is_no_digest)) {
            return Err(format!("the digest of {:?} is not valid", file.path));
        }
        let mut all = HashSet::new();
        if let Some(twice) = paths().find(|path| !all.insert(path.as_str())) {
            return Err(format!("the entry has {twice:?} twice"));
        }
        let files: HashSet<_> = self.files.iter().map(|file| Path::new(&file.path)).collect();
        let mut folders = paths().flat_map(|path| Path::new(path).ancestors().skip(1));
        match folders.find(|folder| files.contains(folder)) {
            Some(both) => Err(format!("{both:?} is both a file and a directory")),
            None => Ok(()),
        }
    }
}

/// A list of at most [`MAX_ITEMS`] items.
struct Bounded<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_ITEMS} items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut found = Vec::new();
        while let Some(item) = items.next_element()? {
            if found.len() == MAX_ITEMS {
                return Err(A::Error::invalid_length(MAX_ITEMS + 1, &self));
            }
            found.push(item);
        }
        Ok(found)
    }
}

/// Reads a list whose memory does not depend on the sender: 32 MiB of text can have ten million empty items.
fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Bounded(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(files: &[&str], directories: &[&str]) -> Result<EntryManifest, String> {
        let file = |path: &&str| CachedFile { path: (*path).to_owned(), size: 2, sha256: None };
        let directories = directories.iter().map(|path| (*path).to_owned()).collect();
        let manifest = EntryManifest { files: files.iter().map(file).collect(), directories };
        EntryManifest::parse(&serde_json::to_vec(&manifest).unwrap())
    }

    #[test]
    fn paths_stay_below_the_entry() {
        assert_eq!(manifest(&["a", "b/c"], &["d/1"]).unwrap().bytes(), 4);
        for path in ["../a", "/a", "a/../../b", "", "a//b", "."] {
            assert!(manifest(&[path], &[]).unwrap_err().contains("the entry has the file"), "{path}");
            assert!(manifest(&[], &[path]).is_err(), "{path}");
        }
    }

    #[test]
    fn one_directory_can_hold_all_files() {
        assert!(manifest(&["a", "a"], &[]).unwrap_err().contains("twice"));
        assert!(manifest(&["a", "a/b"], &[]).unwrap_err().contains("both a file and a directory"));
        assert!(manifest(&["a"], &["a"]).is_err());
        assert!(manifest(&["a"], &["a/b"]).is_err());
        assert!(manifest(&["a/b"], &["a"]).is_ok());
    }

    #[test]
    fn other_texts_are_refused() {
        for json in ["", "[]", "{}", r#"{"files":[],"directories":[],"more":1}"#] {
            assert!(EntryManifest::parse(json.as_bytes()).is_err(), "{json}");
        }
        let many = format!(r#"{{"files":[],"directories":["a"{}]}}"#, r#","a""#.repeat(MAX_ITEMS));
        assert!(EntryManifest::parse(many.as_bytes()).unwrap_err().contains("expected a list of at most 100000 items"));
        let digest = r#"{"files":[{"path":"a","size":1,"sha256":"x"}],"directories":[]}"#;
        assert!(EntryManifest::parse(digest.as_bytes()).unwrap_err().contains("digest"));
        let large = r#"{"files":[{"path":"a","size":18446744073709551615},{"path":"b","size":1}],"directories":[]}"#;
        assert_eq!(EntryManifest::parse(large.as_bytes()).unwrap().bytes(), u64::MAX);
    }
}
