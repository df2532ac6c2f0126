//! A file that says which bytes of which version of each object are on disk, so that a later process resumes there.
//!
//! ```text
//!   length of the list: u64 │ the list of objects: JSON │ received bytes of each piece: u64 …
//! ```
//! All numbers are little-endian. The list is written once. A counter is written after the bytes that it counts. A
//! power failure may keep a counter and lose the bytes, so a journal of an earlier boot counts only for objects with a
//! digest.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan;
use crate::durable;
use crate::store::{Object, RelativePath};

/// Name of the file in the working directory.
const NAME: &str = "journal";

/// An open journal of the bytes received.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    /// Offset of the first counter.
    counters: u64,
}

/// The list of a journal.
#[derive(Serialize, Deserialize)]
struct List {
    /// Identifier of the boot in which the bytes were received.
    boot: String,
    objects: Vec<Entry>,
}

/// An object as the journal names it. The key is not part of it, because it may contain a signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Entry {
    path: String,
    size: Option<u64>,
    version: Option<String>,
}

/// The received bytes that a journal counts.
struct Received {
    /// The bytes by object.
    counts: HashMap<Entry, Vec<u64>>,
    /// True if the machine has not booted since.
    is_of_this_boot: bool,
}

/// Returns the offset of the first byte that is missing of a source with one object; 0 without a journal.
pub(crate) fn first_missing(folder: &Path) -> u64 {
    let journal = read(folder).map(|received| received.counts).unwrap_or_default();
    match journal.iter().next() {
        Some((entry, counts)) if journal.len() == 1 => {
            entry.object().map_or(0, |object| plan::first_missing(&object, counts))
        }
        Some(_) | None => 0,
    }
}

/// Returns the received bytes of each piece of the objects, as far as the journal has the same versions, and the paths
/// of files that belong to no object; `None` without a journal.
pub(super) fn resume(folder: &Path, objects: &[Object]) -> Option<(Vec<u64>, Vec<PathBuf>)> {
    let Received { counts: mut received, is_of_this_boot } = read(folder)?;
    let mut counts = Vec::new();
    for object in objects {
        let mut of_object = received.remove(&Entry::of(object)).unwrap_or_default();
        of_object.resize(plan::slots(object), 0);
        let is_certain = is_of_this_boot || object.digest.is_some();
        if object.version.is_none() || object.size.is_none() || !is_certain {
            of_object.fill(0);
        }
        plan::spread(object, &mut of_object);
        counts.extend(of_object);
    }
    let paths = received.into_keys().filter_map(|entry| RelativePath::parse(&entry.path).ok());
    Some((counts, paths.map(|path| path.as_path().to_owned()).collect()))
}

impl Journal {
    /// Writes a new journal in place of the former one.
    pub(super) fn create(folder: &Path, objects: &[Object], counts: &[u64]) -> io::Result<Self> {
        let (path, new) = (folder.join(NAME), folder.join(NAME).with_extension("new"));
        let list = List { boot: durable::boot(), objects: objects.iter().map(Entry::of).collect() };
        let list = serde_json::to_vec(&list)?;
        let mut bytes = Vec::with_capacity(8 + list.len() + 8 * counts.len());
        bytes.extend((list.len() as u64).to_le_bytes());
        bytes.extend(&list);
        bytes.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        fs::rename(&new, &path)?;
        Ok(Self { file, counters: 8 + list.len() as u64 })
    }

    /// Records the received bytes of a piece.
    pub(super) fn record(&self, slot: usize, count: u64) -> io::Result<()> {
        self.file.write_all_at(&count.to_le_bytes(), self.counters + 8 * slot as u64)
    }
}

impl Entry {
    fn of(object: &Object) -> Self {
        Self { path: object.path.as_str().to_owned(), size: object.size, version: object.version.clone() }
    }

    /// Returns the object as far as the journal knows it; `None` if the path is invalid.
    fn object(&self) -> Option<Object> {
        Some(Object {
            path: RelativePath::parse(&self.path).ok()?,
            key: String::new(),
            size: self.size,
            version: self.version.clone(),
            digest: None,
            packing: crate::archive::packing::Packing::None,
        })
    }
}

/// Reads a journal; `None` if there is none, or if it is damaged.
fn read(folder: &Path) -> Option<Received> {
    let bytes = fs::read(folder.join(NAME)).ok()?;
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (list, counters) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let List { boot, objects } = serde_json::from_slice(list).ok()?;
    let mut counters = counters.as_chunks::<8>().0.iter().map(|count| u64::from_le_bytes(*count));
    let mut received = HashMap::new();
    for entry in objects {
        let slots = plan::slots(&entry.object()?);
        let counts: Vec<_> = counters.by_ref().take(slots).collect();
        (counts.len() == slots).then_some(())?;
        received.insert(entry, counts);
    }
    Some(Received { counts: received, is_of_this_boot: boot == durable::boot() })
}

#[cfg(test)]
mod tests {
    use super::super::PIECE;
    use super::*;

    fn object(path: &str, size: u64, version: &str) -> Object {
        Entry { path: path.to_owned(), size: Some(size), version: Some(version.to_owned()) }.object().unwrap()
    }

    #[test]
    fn a_later_process_finds_what_was_received_of_the_same_versions() {
        let folder = tempfile::tempdir().unwrap();
        let objects = [object("a", PIECE + 9, "1"), object("b", 5, "1"), object("c", 5, "1")];
        let journal = Journal::create(folder.path(), &objects, &[0; 4]).unwrap();
        journal.record(1, 4).unwrap();
        journal.record(2, 5).unwrap();
        journal.record(3, 5).unwrap();
        let (counts, stale) = resume(folder.path(), &[object("b", 5, "2"), object("a", PIECE + 9, "1")]).unwrap();
        assert_eq!(counts, [0, 0, 4]);
        let mut stale: Vec<_> = stale.iter().map(|path| path.to_str().unwrap()).collect();
        stale.sort_unstable();
        assert_eq!(stale, ["b", "c"]);
    }

    #[test]
    fn a_damaged_journal_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let objects = [object("a", 5, "1")];
        drop(Journal::create(folder.path(), &objects, &[5]).unwrap());
        let whole = fs::read(folder.path().join(NAME)).unwrap();
        assert_eq!(resume(folder.path(), &objects).unwrap().0, [5]);
        assert_eq!(first_missing(folder.path()), 5);
        for length in 0..whole.len() {
            fs::write(folder.path().join(NAME), &whole[..length]).unwrap();
            assert_eq!(resume(folder.path(), &objects), None, "{length} bytes");
        }
        let long = [&u64::MAX.to_le_bytes()[..], &whole[8..]].concat();
        fs::write(folder.path().join(NAME), long).unwrap();
        assert_eq!(resume(folder.path(), &objects), None);
    }

    #[test]
    fn after_a_boot_only_objects_with_a_digest_are_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let with_digest = Object { digest: crate::digest::Digest::of_hex(&"ab".repeat(32)), ..object("b", 5, "1") };
        let objects = [object("a", 5, "1"), with_digest];
        drop(Journal::create(folder.path(), &objects, &[5, 5]).unwrap());
        let path = folder.path().join(NAME);
        let text = fs::read(&path).unwrap();
        let (boot, other) = (durable::boot(), durable::boot().replace(|_: char| true, "0"));
        let at = text.windows(boot.len()).position(|part| part == boot.as_bytes()).unwrap();
        fs::write(&path, [&text[..at], other.as_bytes(), &text[at + boot.len()..]].concat()).unwrap();
        assert_eq!(resume(folder.path(), &objects).unwrap().0, [0, 5]);
    }

    #[test]
    fn objects_without_a_version_start_again() {
        let folder = tempfile::tempdir().unwrap();
        let objects = [Object { version: None, ..object("a", 5, "") }];
        drop(Journal::create(folder.path(), &objects, &[5]).unwrap());
        assert_eq!(resume(folder.path(), &objects).unwrap().0, [0]);
    }
}
