//! The directory of a cache.
//!
//! ```text
//!   .weir-model-cache                           marks the directory as a cache's, and is locked
//!   entries/NAMESPACE/KEY-LEASE/manifest.json   names, sizes and digests; its time is the time of the last use
//!   entries/NAMESPACE/KEY-LEASE/0, 1, 2 …       contents of the files
//!   staged/LEASE/…                              an entry that is not complete
//! ```
//!
//! Only files and directories with names of these forms are removed, one by one. Anything else stays where it is.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::SystemTime;

use weir_fetch::node_cache::{EntryKey, EntryManifest, MAX_MANIFEST, copy_file, head};

use crate::accounts::Namespace;
use crate::error::CacheError;
use crate::folder::Folder;
use crate::index::{Entry, EntryId, LeaseId};
use crate::root::Root;

const ENTRIES: &str = "entries";
const STAGED: &str = "staged";
const MANIFEST: &str = "manifest.json";

/// Bytes of a block, in which file systems allocate space.
const BLOCK: u64 = 4096;

/// Bytes of the length of the manifest in a stream.
const LENGTH: usize = 4;

/// The directory of a cache, which one process uses.
#[derive(Debug)]
pub(crate) struct Disk {
    entries: Folder,
    staged: Folder,
    _root: Root,
}

impl Disk {
    /// Opens the directory of a cache, and removes incomplete entries.
    ///
    /// # Errors
    /// The errors of [`Root::open`], and [`CacheError::File`] if the directory cannot be written.
    pub(crate) fn open(path: &Path) -> Result<Self, CacheError> {
        let root = Root::open(path)?;
        let disk = Self {
            entries: root.folder.find_or_make(ENTRIES)?,
            staged: root.folder.find_or_make(STAGED)?,
            _root: root,
        };
        for name in disk.staged.names()? {
            match LeaseId::parse(&name) {
                Some(_) => remove_or_warn(&disk.staged, &name),
                None => foreign(&disk.staged, &name),
            }
        }
        Ok(disk)
    }

    /// Returns the entries of an earlier process. Incomplete ones are removed.
    ///
    /// # Errors
    /// [`CacheError::File`] if the directory of all entries cannot be read.
    pub(crate) fn load(&self) -> Result<Vec<(EntryId, Entry)>, CacheError> {
        let mut found = Vec::new();
        for name in self.entries.names()? {
            let folder = self.entries.find(&name).ok().flatten();
            match Namespace::parse(&name).zip(folder) {
                Some((namespace, folder)) => {
                    found.extend(load_namespace(&namespace, &folder)?);
                    // Fails unless the directory is empty.
                    let _ = self.entries.remove_directory(&name);
                }
                None => foreign(&self.entries, &name),
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
        manifest: EntryManifest,
        stream: &mut impl Read,
    ) -> Result<Entry, CacheError> {
        let stored = self.stage(lease, manifest, stream).and_then(|manifest| {
            let directory = format!("{}-{}", id.key, lease.as_str());
            let namespace = self.entries.find_or_make(id.namespace.as_str())?;
            self.staged.rename(lease.as_str(), &namespace, &directory)?;
            let last_use = self.manifest(id, &directory).and_then(|manifest| manifest.metadata()?.modified());
            let last_use = last_use.map_err(CacheError::file(namespace.path_of(&directory)))?;
            Ok(entry(directory, &manifest, last_use))
        });
        if stored.is_err() {
            remove_or_warn(&self.staged, lease.as_str());
        }
        stored
    }

    /// Writes the files of a stream into a new directory, and returns the manifest with their digests.
    fn stage(
        &self,
        lease: &LeaseId,
        mut manifest: EntryManifest,
        stream: &mut impl Read,
    ) -> Result<EntryManifest, CacheError> {
        let folder = self.staged.make(lease.as_str())?;
        for (number, file) in manifest.files.iter_mut().enumerate() {
            let name = number.to_string();
            let path = folder.path_of(&name);
            let mut to = folder.create(&name).map_err(CacheError::file(&path))?;
            file.sha256 = Some(copy_file(stream, &mut to, file.size).map_err(received(&path))?);
        }
        if stream.read(&mut [0]).map_err(CacheError::file(folder.path()))? > 0 {
            return Err(CacheError::Invalid("more bytes follow than the list of files says".to_owned()));
        }
        let text = head(&manifest).map_err(|error| CacheError::Invalid(error.to_string()))?;
        let written = folder.create(MANIFEST).and_then(|mut file| file.write_all(&text[LENGTH..]));
        written.map_err(CacheError::file(folder.path_of(MANIFEST)))?;
        Ok(manifest)
    }

    /// Records the time of the last use of an entry. A failure only shortens the entry's life after a restart.
    pub(crate) fn touch(&self, id: &EntryId, entry: &Entry) {
        let manifest = self.folder(id, &entry.directory).and_then(|folder| folder.writable(MANIFEST));
        let _ = manifest.and_then(|manifest| manifest.set_modified(entry.last_use));
    }

    /// Removes the directory of an entry that is no longer in the index.
    pub(crate) fn remove(&self, id: &EntryId, entry: &Entry) {
        match self.entries.find(id.namespace.as_str()) {
            Ok(Some(namespace)) => remove_or_warn(&namespace, &entry.directory),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot remove an entry"),
        }
    }

    /// Opens the manifest of the entry in a directory.
    pub(crate) fn manifest(&self, id: &EntryId, directory: &str) -> io::Result<File> {
        self.folder(id, directory)?.file(MANIFEST)
    }

    /// Opens a file of an entry by its number.
    pub(crate) fn file(&self, id: &EntryId, entry: &Entry, number: usize) -> io::Result<File> {
        self.folder(id, &entry.directory)?.file(&number.to_string())
    }

    fn folder(&self, id: &EntryId, directory: &str) -> io::Result<Folder> {
        let find = |folder: &Folder, name: &str| {
            let found = folder.find(name).map_err(io::Error::other)?;
            found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
        };
        find(&find(&self.entries, id.namespace.as_str())?, directory)
    }
}

/// Returns the bytes that an entry takes on disk: whole blocks, and the manifest with its digests.
pub(crate) fn stored(manifest: &EntryManifest) -> u64 {
    let blocks = |bytes: u64| bytes.div_ceil(BLOCK).saturating_mul(BLOCK);
    let files = manifest.files.iter().map(|file| blocks(file.size));
    // A file's line has its path, 64 digits, its size and some punctuation.
    let lines = manifest.files.iter().map(|file| file.path.len() as u64 * 2 + 128);
    let directories = manifest.directories.iter().map(|path| path.len() as u64 * 2 + 4);
    let text = blocks(lines.chain(directories).sum());
    files.fold(text, u64::saturating_add).saturating_add(BLOCK)
}

fn entry(directory: String, manifest: &EntryManifest, last_use: SystemTime) -> Entry {
    let (files, bytes) = (manifest.files.len(), manifest.bytes());
    Entry { directory, files, bytes, stored: stored(manifest), last_use, readers: 0 }
}

/// Returns the entries of a namespace. Incomplete ones are removed.
fn load_namespace(namespace: &Namespace, folder: &Folder) -> Result<Vec<(EntryId, Entry)>, CacheError> {
    let mut found = Vec::new();
    for name in folder.names()? {
        match key(&name) {
            Some(key) => match load(folder, &name) {
                Some(entry) => found.push((EntryId { namespace: namespace.clone(), key }, entry)),
                None => remove_or_warn(folder, &name),
            },
            None => foreign(folder, &name),
        }
    }
    Ok(found)
}

/// Returns the key in the name of an entry's directory; `None` for other names.
fn key(directory: &str) -> Option<EntryKey> {
    let (key, lease) = directory.split_once('-')?;
    LeaseId::parse(lease).and_then(|_| EntryKey::parse(key))
}

/// Returns the entry in a directory; `None` if it is not complete.
fn load(namespace: &Folder, directory: &str) -> Option<Entry> {
    let folder = namespace.find(directory).ok()??;
    let manifest = EntryManifest::parse(&folder.read(MANIFEST, MAX_MANIFEST as u64).ok()?).ok()?;
    let has_size = |(number, size): (usize, u64)| {
        let found = folder.file(&number.to_string()).and_then(|file| file.metadata());
        found.is_ok_and(|found| found.len() == size)
    };
    let is_complete = manifest.files.iter().map(|file| file.size).enumerate().all(has_size)
        && manifest.files.iter().all(|file| file.sha256.is_some());
    let last_use = folder.file(MANIFEST).and_then(|file| file.metadata()?.modified()).ok()?;
    is_complete.then(|| entry(directory.to_owned(), &manifest, last_use))
}

/// Removes the directory of an entry: its manifest and its numbered files, and then the directory if it is empty.
fn remove(parent: &Folder, directory: &str) -> Result<(), CacheError> {
    let Some(folder) = parent.find(directory)? else {
        return Ok(());
    };
    let is_number = |name: &String| !name.is_empty() && name.bytes().all(|c| c.is_ascii_digit());
    for name in folder.names()?.iter().filter(|name| *name == MANIFEST || is_number(name)) {
        folder.remove_file(name)?;
    }
    parent.remove_directory(directory)
}

/// Removes the directory of an entry as far as possible.
fn remove_or_warn(parent: &Folder, directory: &str) {
    if let Err(error) = remove(parent, directory) {
        tracing::warn!(%error, "cannot remove an entry");
    }
}

/// Reports a file that is not the cache's, and stays.
fn foreign(parent: &Folder, name: &str) {
    tracing::warn!(path = %parent.path_of(name).display(), "left alone: the cache has no file or directory of this name");
}

/// Returns a function that distinguishes a stream that ended early from a file that cannot be written.
fn received(path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::UnexpectedEof => CacheError::Invalid("the upload ended early".to_owned()),
        _ => CacheError::file(path)(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use weir_fetch::node_cache::CachedFile;

    use super::*;

    fn id(namespace: &str) -> EntryId {
        EntryId { namespace: Namespace::parse(namespace).unwrap(), key: EntryKey::parse(&"a".repeat(64)).unwrap() }
    }

    fn manifest(sizes: &[u64]) -> EntryManifest {
        let file =
            |(number, size): (usize, &u64)| CachedFile { path: format!("d/{number}"), size: *size, sha256: None };
        EntryManifest { files: sizes.iter().enumerate().map(file).collect(), directories: Vec::new() }
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
        drop(disk);
        let again = Disk::open(folder.path()).unwrap();
        assert_eq!(again.load().unwrap(), [(id("team"), entry.clone())]);
        again.remove(&id("team"), &entry);
        assert_eq!(again.load().unwrap(), []);
        assert_eq!(again.entries.names().unwrap(), [""; 0]);
    }

    #[test]
    fn streams_of_another_length_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        for (content, reason) in [(&b"hell"[..], "ended early"), (b"hello!", "more bytes")] {
            let refused = disk.store(&id("team"), &LeaseId::new(1), manifest(&[5]), &mut &content[..]);
            assert!(refused.unwrap_err().to_string().contains(reason));
        }
        assert_eq!(disk.staged.names().unwrap(), [""; 0]);
        assert_eq!(disk.load().unwrap(), []);
    }

    #[test]
    fn incomplete_entries_are_removed_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let entry = stored_in(&disk, 1).unwrap();
        drop(disk);
        let path = folder.path().join("entries/team").join(&entry.directory);
        fs::write(path.join("0"), "hell").unwrap();
        let staged = folder.path().join(STAGED).join(LeaseId::new(2).as_str());
        fs::create_dir(&staged).unwrap();
        fs::write(staged.join("0"), "hell").unwrap();
        assert_eq!(Disk::open(folder.path()).unwrap().load().unwrap(), []);
        assert!(!path.exists() && !staged.exists());
    }

    #[test]
    fn files_that_are_not_the_caches_stay() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let disk = Disk::open(folder.path()).unwrap();
        let entry = stored_in(&disk, 1).unwrap();
        drop(disk);
        let own = folder.path().join("entries/team").join(&entry.directory);
        // Links and directories in the places of entries and of their files.
        let named = format!("{}-{}", "b".repeat(64), LeaseId::new(2).as_str());
        let links = ["entries/link".to_owned(), format!("entries/team/{named}"), format!("staged/{}", &named[65..])];
        for link in &links {
            symlink(outside.path(), folder.path().join(link)).unwrap();
        }
        fs::write(outside.path().join("0"), "kept").unwrap();
        fs::create_dir_all(folder.path().join("entries/team/..x/0")).unwrap();
        fs::create_dir_all(folder.path().join("entries/NO NAMESPACE/x")).unwrap();
        fs::create_dir_all(folder.path().join("staged/x")).unwrap();
        fs::write(own.join("notes"), "kept").unwrap();
        let again = Disk::open(folder.path()).unwrap();
        assert_eq!(again.load().unwrap(), [(id("team"), entry.clone())]);
        again.remove(&id("team"), &entry);
        assert_eq!(fs::read(outside.path().join("0")).unwrap(), b"kept");
        assert!(links.iter().all(|link| fs::symlink_metadata(folder.path().join(link)).unwrap().is_symlink()));
        let directories = ["entries/team/..x/0", "entries/NO NAMESPACE/x", "staged/x"];
        assert!(directories.iter().all(|path| folder.path().join(path).is_dir()));
        assert_eq!((fs::read(own.join("notes")).unwrap(), own.join("0").exists()), (b"kept".to_vec(), false));
    }

    #[test]
    fn a_link_in_the_place_of_all_entries_stops_the_start() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        drop(Disk::open(folder.path()).unwrap());
        let team = outside.path().join("team").join(format!("{}-{}", "a".repeat(64), LeaseId::new(1).as_str()));
        fs::create_dir_all(&team).unwrap();
        fs::write(team.join("0"), "kept").unwrap();
        fs::remove_dir(folder.path().join(ENTRIES)).unwrap();
        symlink(outside.path(), folder.path().join(ENTRIES)).unwrap();
        assert!(matches!(Disk::open(folder.path()), Err(CacheError::File { .. })));
        assert_eq!(fs::read(team.join("0")).unwrap(), b"kept");
    }

    #[test]
    fn many_small_files_count_whole_blocks() {
        assert_eq!(stored(&manifest(&[1; 10])), 12 * BLOCK);
        assert_eq!(stored(&manifest(&[])), BLOCK);
        assert_eq!(stored(&manifest(&[u64::MAX, 1])), u64::MAX);
    }
}
