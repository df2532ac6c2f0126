//! The directory into which layers are unpacked.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::archive::unpack::too_large;
use crate::error::FetchError;
use crate::limits::Limits;

/// A directory that layers change. No operation follows a link.
pub(super) struct Tree<'a> {
    target: &'a Path,
    limits: &'a Limits,
    /// Entries that may still be written.
    entries: u64,
    /// Paths that the present layer has written, which its whiteouts do not concern.
    written: BTreeSet<PathBuf>,
    /// Links of all layers.
    links: BTreeSet<PathBuf>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(target: &'a Path, limits: &'a Limits) -> Self {
        Self { target, limits, entries: limits.entries, written: BTreeSet::new(), links: BTreeSet::new() }
    }

    pub(super) fn begin_layer(&mut self) {
        self.written.clear();
    }

    pub(super) fn is_empty(&self) -> Result<bool, FetchError> {
        let mut entries = fs::read_dir(self.target).map_err(FetchError::file(self.target))?;
        Ok(entries.next().is_none())
    }

    pub(super) fn make_directory(&mut self, place: &Path, name: &str) -> Result<(), FetchError> {
        self.count()?;
        self.make_parents(place, name)?;
        let path = self.target.join(place);
        if !is_directory(&path) {
            self.remove_all(place)?;
            fs::create_dir(&path).map_err(FetchError::file(&path))?;
        }
        self.written.insert(place.to_owned());
        Ok(())
    }

    pub(super) fn write_file(&mut self, place: &Path, name: &str, data: &mut dyn Read) -> Result<(), FetchError> {
        let path = self.make_room(place, name)?;
        let mut file = File::create_new(&path).map_err(FetchError::file(&path))?;
        // The caller bounds the size of the whole image.
        io::copy(data, &mut file).map_err(FetchError::Archive)?;
        Ok(())
    }

    /// Creates a symbolic link. `to` is relative to the link's directory.
    pub(super) fn link(&mut self, place: &Path, name: &str, to: &Path) -> Result<(), FetchError> {
        let path = self.make_room(place, name)?;
        symlink(to, &path).map_err(FetchError::file(&path))?;
        self.links.insert(place.to_owned());
        Ok(())
    }

    /// Creates another name of the file at `to`.
    pub(super) fn link_hard(&mut self, place: &Path, name: &str, to: &Path) -> Result<(), FetchError> {
        let original = self.target.join(to);
        let is_file = fs::symlink_metadata(&original).is_ok_and(|found| found.is_file());
        if place == to || !is_file || self.linked_parent(to) {
            let reason = "which is a link to a file that is missing";
            return Err(FetchError::Unsafe { entry: name.to_owned(), reason });
        }
        let path = self.make_room(place, name)?;
        fs::hard_link(&original, &path).map_err(FetchError::file(&path))
    }

    /// Removes what earlier layers have at a place.
    pub(super) fn remove(&mut self, place: &Path, name: &str) -> Result<(), FetchError> {
        if self.linked_parent(place) {
            return Err(below_link(name));
        }
        if self.written.contains(place) { self.clear(place, name) } else { self.remove_all(place) }
    }

    /// Removes what earlier layers have in a directory.
    pub(super) fn clear(&mut self, place: &Path, name: &str) -> Result<(), FetchError> {
        let folder = self.target.join(place);
        if self.linked_parent(place) {
            return Err(below_link(name));
        }
        if !is_directory(&folder) {
            return Ok(());
        }
        for entry in fs::read_dir(&folder).map_err(FetchError::file(&folder))? {
            let entry = entry.map_err(FetchError::file(&folder))?;
            self.remove(&place.join(entry.file_name()), name)?;
        }
        Ok(())
    }

    /// Checks that every link leads to a file or directory in the tree. A link may lead through other links, so this is
    /// certain only once the tree is complete.
    pub(super) fn check_links(&self) -> Result<(), FetchError> {
        let root = fs::canonicalize(self.target).map_err(FetchError::file(self.target))?;
        for place in &self.links {
            let path = self.target.join(place);
            let reason = match fs::canonicalize(&path) {
                Ok(reached) if reached.starts_with(&root) => continue,
                Ok(_) => "which is a link that leaves /models",
                Err(_) => "which is a link to a file that is missing",
            };
            return Err(FetchError::Unsafe { entry: format!("models/{}", place.display()), reason });
        }
        Ok(())
    }

    /// Counts an entry, creates the directories above it, and removes what earlier layers have in its place.
    fn make_room(&mut self, place: &Path, name: &str) -> Result<PathBuf, FetchError> {
        self.count()?;
        self.make_parents(place, name)?;
        self.remove_all(place)?;
        self.written.insert(place.to_owned());
        Ok(self.target.join(place))
    }

    /// Creates the directories that a name implies. Each of them counts as an entry, because one name may imply dozens.
    fn make_parents(&mut self, place: &Path, name: &str) -> Result<(), FetchError> {
        if self.linked_parent(place) {
            return Err(below_link(name));
        }
        let above: Vec<_> = place.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
        for above in above.into_iter().rev() {
            let path = self.target.join(above);
            if !is_directory(&path) {
                self.count()?;
                self.remove_all(above)?;
                fs::create_dir(&path).map_err(FetchError::file(&path))?;
            }
            self.written.insert(above.to_owned());
        }
        Ok(())
    }

    /// Returns true if a directory above a place is a link.
    fn linked_parent(&self, place: &Path) -> bool {
        !self.links.is_empty() && place.ancestors().skip(1).any(|above| self.links.contains(above))
    }

    fn remove_all(&mut self, place: &Path) -> Result<(), FetchError> {
        let path = self.target.join(place);
        let removed = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(_) => return Ok(()),
        };
        self.links.retain(|link| !link.starts_with(place));
        removed.map_err(FetchError::file(&path))
    }

    fn count(&mut self) -> Result<(), FetchError> {
        let too_many = || too_large("number of files in the image", self.limits.entries);
        self.entries = self.entries.checked_sub(1).ok_or_else(too_many)?;
        Ok(())
    }
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn below_link(name: &str) -> FetchError {
    FetchError::Unsafe { entry: name.to_owned(), reason: "which lies below a link" }
}
