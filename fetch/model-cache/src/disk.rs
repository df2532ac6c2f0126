//! The directory of a cache.
//!
//! ```text
//!   entries/NAMESPACE/KEY-LEASE/manifest.json   names, sizes and digests; its time is the time of the last use
//!   entries/NAMESPACE/KEY-LEASE/0, 1, 2 …       contents of the files
//!   staged/LEASE/…                              an entry that is not complete
//! ```

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use weir_fetch::node_cache::{EntryKey, Manifest, copy_file, head};

use crate::accounts::Namespace;
use crate::error::CacheError;
use crate::index::{Entry, EntryId, LeaseId};

const ENTRIES: &str = "entries";
const STAGED: &str = "staged";
const MANIFEST: &str = "manifest.json";

/// Bytes of a block, in which file systems allocate space.
const BLOCK: u64 = 4096;

/// Bytes of the length of the manifest in a stream.
const LENGTH: u64 = 4;

/// The directory of a cache, which one process uses.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    root: PathBuf,
}

impl Disk {
    /// Opens a directory, which only this process's user can read, and removes incomplete entries.
    pub(crate) fn open(root: &Path) -> Result<Self, CacheError> {
        remove(&root.join(STAGED))?;
        for directory in [ENTRIES, STAGED] {
            create(&root.join(directory))?;
        }
        Ok(Self { root: root.to_owned() })
    }

    /// Returns the entries of an earlier process. Directories that are no complete entries are removed.
    pub(crate) fn load(&self) -> Result<Vec<(EntryId, Entry)>, CacheError> {
        let mut found = Vec::new();
        for namespace in children(&self.root.join(ENTRIES))? {
            // A link could lead to files that are not the cache's: nothing behind it is read or removed.
            let name = name(&namespace).and_then(Namespace::parse).filter(|_| is_directory(&namespace));
            let entries = if name.is_some() { children(&namespace)? } else { Vec::new() };
            if entries.is_empty() {
                remove(&namespace)?;
            }
            for path in entries {
                match name.as_ref().and_then(|name| load(name, &path)) {
                    Some(entry) => found.push(entry),
                    None => {
                        tracing::warn!(path = %path.display(), "removing an incomplete entry");
                        remove(&path)?;
                    }
                }
            }
        }
        Ok(found)
    }

    /// Stores the files of a stream, which follow the manifest, and returns the entry.
    ///
    /// # Errors
    /// [`CacheError::Invalid`] for a stream with fewer or more bytes, [`CacheError::Full`] if the file system has no room.
    pub(crate) fn store(
        &self,
        id: &EntryId,
        lease: &LeaseId,
        manifest: Manifest,
        stream: &mut impl Read,
    ) -> Result<Entry, CacheError> {
        let staged = self.root.join(STAGED).join(lease.as_str());
        let stored = self.stage(&staged, manifest, stream).and_then(|manifest| {
            let directory = format!("{}-{}", id.key, lease.as_str());
            let path = self.path(id, &directory);
            create(path.parent().unwrap_or(&self.root))?;
            fs::rename(&staged, &path).map_err(CacheError::file(&path))?;
            let last_use = modified(&path)?;
            Ok(entry(directory, &manifest, last_use))
        });
        if stored.is_err() {
            let _ = remove(&staged);
        }
        stored
    }

    /// Writes the files of a stream into a new directory, and returns the manifest with their digests.
    #[expect(clippy::unused_self, reason = "only an open cache has a directory for incomplete entries")]
    fn stage(&self, staged: &Path, mut manifest: Manifest, stream: &mut impl Read) -> Result<Manifest, CacheError> {
        create(staged)?;
        for (number, file) in manifest.files.iter_mut().enumerate() {
            let path = staged.join(number.to_string());
            let mut to = File::create_new(&path).map_err(CacheError::file(&path))?;
            file.sha256 = Some(copy_file(stream, &mut to, file.size).map_err(received(&path))?);
        }
        if stream.read(&mut [0]).map_err(CacheError::file(staged))? > 0 {
            return Err(CacheError::Invalid("more bytes follow than the list of files says".to_owned()));
        }
        let path = staged.join(MANIFEST);
        let text = head(&manifest).map_err(|error| CacheError::Invalid(error.to_string()))?;
        fs::write(&path, &text[LENGTH as usize..]).map_err(CacheError::file(&path))?;
        Ok(manifest)
    }

    /// Records the time of the last use of an entry. A failure only shortens the entry's life after a restart.
    pub(crate) fn touch(&self, id: &EntryId, entry: &Entry) {
        let manifest = File::options().append(true).open(self.path(id, &entry.directory).join(MANIFEST));
        let _ = manifest.and_then(|manifest| manifest.set_modified(entry.last_use));
    }

    /// Removes the directory of an entry that is no longer in the index.
    pub(crate) fn remove(&self, id: &EntryId, entry: &Entry) {
        if let Err(error) = remove(&self.path(id, &entry.directory)) {
            tracing::warn!(%error, "cannot remove an entry");
        }
    }

    /// Opens the manifest of an entry.
    pub(crate) fn manifest(&self, id: &EntryId, entry: &Entry) -> io::Result<File> {
        File::open(self.path(id, &entry.directory).join(MANIFEST))
    }

    /// Opens a file of an entry by its number.
    pub(crate) fn file(&self, id: &EntryId, entry: &Entry, number: usize) -> io::Result<File> {
        File::open(self.path(id, &entry.directory).join(number.to_string()))
    }

    fn path(&self, id: &EntryId, directory: &str) -> PathBuf {
        self.root.join(ENTRIES).join(id.namespace.as_str()).join(directory)
    }
}

/// Returns the bytes that an entry takes on disk: whole blocks, and the manifest with its digests.
pub(crate) fn stored(manifest: &Manifest) -> u64 {
    let blocks = |bytes: u64| bytes.div_ceil(BLOCK).saturating_mul(BLOCK);
    let files = manifest.files.iter().map(|file| blocks(file.size));
    // A file's line has its path, 64 digits, its size and some punctuation.
    let lines = manifest.files.iter().map(|file| file.path.len() as u64 * 2 + 128);
    let directories = manifest.directories.iter().map(|path| path.len() as u64 * 2 + 4);
    let text = blocks(lines.chain(directories).sum());
    files.fold(text, u64::saturating_add).saturating_add(BLOCK)
}

fn entry(directory: String, manifest: &Manifest, last_use: SystemTime) -> Entry {
    let (files, bytes) = (manifest.files.len(), manifest.bytes());
    Entry { directory, files, bytes, stored: stored(manifest), last_use, readers: 0 }
}

/// Returns the entry in a directory; `None` if it is not complete.
fn load(namespace: &Namespace, path: &Path) -> Option<(EntryId, Entry)> {
    let directory = name(path).filter(|_| is_directory(path))?;
    let (key, lease) = directory.split_once('-')?;
    let id = EntryId { namespace: namespace.clone(), key: EntryKey::parse(key)? };
    LeaseId::parse(lease)?;
    let manifest = Manifest::parse(&fs::read(path.join(MANIFEST)).ok()?).ok()?;
    let has_size = |(number, size): (usize, u64)| {
        fs::symlink_metadata(path.join(number.to_string())).is_ok_and(|found| found.is_file() && found.len() == size)
    };
    let is_complete = manifest.files.iter().map(|file| file.size).enumerate().all(has_size)
        && manifest.files.iter().all(|file| file.sha256.is_some());
    let last_use = modified(path).ok()?;
    is_complete.then(|| (id, entry(directory.to_owned(), &manifest, last_use)))
}

fn modified(entry: &Path) -> Result<SystemTime, CacheError> {
    let manifest = entry.join(MANIFEST);
    fs::metadata(&manifest).and_then(|found| found.modified()).map_err(CacheError::file(&manifest))
}

/// Returns true for a directory, and false for a link to one.
fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn children(path: &Path) -> Result<Vec<PathBuf>, CacheError> {
    let entries = fs::read_dir(path).map_err(CacheError::file(path))?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(CacheError::file(path))).collect()
}

fn create(path: &Path) -> Result<(), CacheError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(CacheError::file(path))
}

/// Removes a file, a link or a directory with all that is in it. Links are not followed.
fn remove(path: &Path) -> Result<(), CacheError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(CacheError::file(path)),
    }
}

/// Returns a function that tells a stream that ended early from a file that cannot be written.
fn received(path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::UnexpectedEof => CacheError::Invalid("the upload ended early".to_owned()),
        _ => CacheError::file(path)(error),
    }
}

#[cfg(test)]
mod tests {
    use weir_fetch::node_cache::CachedFile;

    use super::*;

    fn id(namespace: &str) -> EntryId {
        EntryId { namespace: Namespace::parse(namespace).unwrap(), key: EntryKey::parse(&"a".repeat(64)).unwrap() }
    }

    fn manifest(sizes: &[u64]) -> Manifest {
        let file =
            |(number, size): (usize, &u64)| CachedFile { path: format!("d/{number}"), size: *size, sha256: None };
        Manifest { files: sizes.iter().enumerate().map(file).collect(), directories: Vec::new() }
    }

    fn stored_in(disk: &Disk, lease: u128) -> Result<Entry, CacheError> {
        disk.store(&id("team"), &LeaseId::new(lease), manifest(&[5, 0]), &mut &b"hello"[..])
    }

    #[test]
    fn entries_survive_a_restart_with_their_last_use() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let mut entry = stored_in(&disk, 1).unwrap();
        assert_eq!((entry.files, entry.bytes), (2, 5));
        entry.last_use = SystemTime::UNIX_EPOCH;
        disk.touch(&id("team"), &entry);
        let again = Disk::open(folder.path()).unwrap();
        assert_eq!(again.load().unwrap(), [(id("team"), entry.clone())]);
        again.remove(&id("team"), &entry);
        assert_eq!(again.load().unwrap(), []);
    }

    #[test]
    fn streams_of_another_length_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        for (content, reason) in [(&b"hell"[..], "ended early"), (b"hello!", "more bytes")] {
            let refused = disk.store(&id("team"), &LeaseId::new(1), manifest(&[5]), &mut &content[..]);
            assert!(refused.unwrap_err().to_string().contains(reason));
        }
        assert_eq!(fs::read_dir(folder.path().join(STAGED)).unwrap().count(), 0);
        assert_eq!(disk.load().unwrap(), []);
    }

    #[test]
    fn incomplete_entries_are_removed_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let entry = stored_in(&disk, 1).unwrap();
        let path = disk.path(&id("team"), &entry.directory);
        fs::write(path.join("0"), "hell").unwrap();
        fs::create_dir_all(folder.path().join("entries/team/..x")).unwrap();
        fs::create_dir_all(folder.path().join("entries/NO NAMESPACE/x")).unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "kept").unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("entries/link")).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("entries/team/link")).unwrap();
        fs::create_dir_all(folder.path().join("staged/x")).unwrap();
        let again = Disk::open(folder.path()).unwrap();
        assert_eq!(again.load().unwrap(), []);
        assert!(!path.exists() && !folder.path().join("staged/x").exists());
        // A link is removed itself, and nothing behind it is touched.
        assert_eq!(fs::read(outside.path().join("kept")).unwrap(), b"kept");
        assert!(fs::symlink_metadata(folder.path().join("entries/link")).is_err());
    }

    #[test]
    fn many_small_files_count_whole_blocks() {
        assert_eq!(stored(&manifest(&[1; 10])), 12 * BLOCK);
        assert_eq!(stored(&manifest(&[])), BLOCK);
        assert_eq!(stored(&manifest(&[u64::MAX, 1])), u64::MAX);
    }
}
