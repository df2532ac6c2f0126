//! Writes the files of an entry into a directory, and compares their digests.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::framing::{copy_file, read_manifest};
use crate::limits::Limits;

/// End of a stream that arrived completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The directory has all files, of this size in bytes.
    Complete(u64),
    /// The file at this path has another digest than the manifest says.
    Damaged(String),
}

/// Writes the files of a stream into a new directory. Files that an earlier attempt left there are removed.
pub(super) fn receive(stream: &mut impl Read, folder: &Path, limits: &Limits) -> io::Result<Received> {
    let manifest = read_manifest(stream)?;
    if manifest.bytes() > limits.unpacked {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the entry is larger than a model may be"));
    }
    remove(folder)?;
    fs::create_dir_all(folder)?;
    for directory in &manifest.directories {
        fs::create_dir_all(folder.join(directory))?;
    }
    for file in &manifest.files {
        let path = folder.join(&file.path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        let found = copy_file(stream, &mut File::create_new(&path)?, file.size)?;
        if file.sha256.as_ref() != Some(&found) {
            return Ok(Received::Damaged(file.path.clone()));
        }
    }
    Ok(Received::Complete(manifest.bytes()))
}

/// Removes a directory that may be missing.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::node_cache::framing::head;
    use crate::node_cache::manifest::{CachedFile, EntryManifest};

    fn stream(content: &[u8], digest_of: &[u8]) -> Vec<u8> {
        let sha256 = Some(Digest::of(digest_of).hex().to_owned());
        let file = CachedFile { path: "1/model.pt".to_owned(), size: content.len() as u64, sha256 };
        let manifest = EntryManifest { files: vec![file], directories: vec!["empty/1".to_owned()] };
        [head(&manifest).unwrap(), content.to_vec()].concat()
    }

    #[test]
    fn files_and_empty_directories_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("content");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("old"), "old").unwrap();
        let received = receive(&mut &stream(b"hello", b"hello")[..], &target, &Limits::default()).unwrap();
        assert_eq!(received, Received::Complete(5));
        assert_eq!(fs::read(target.join("1/model.pt")).unwrap(), b"hello");
        assert!(target.join("empty/1").is_dir() && !target.join("old").exists());
    }

    #[test]
    fn a_damaged_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let received = receive(&mut &stream(b"hello", b"hellO")[..], folder.path(), &Limits::default()).unwrap();
        assert_eq!(received, Received::Damaged("1/model.pt".to_owned()));
    }

    #[test]
    fn streams_that_end_early_or_are_too_large_fail() {
        let folder = tempfile::tempdir().unwrap();
        let whole = stream(b"hello", b"hello");
        let cut = &whole[..whole.len() - 1];
        assert!(receive(&mut &cut[..], folder.path(), &Limits::default()).is_err());
        let small = Limits { unpacked: 4, ..Limits::default() };
        assert!(receive(&mut &whole[..], folder.path(), &small).unwrap_err().to_string().contains("larger"));
    }
}
