//! Change detection for files, by their sizes and modification times, not their content.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::layout::{self, Child};

/// Deeper than any model's files lie. A symbolic link that points upwards ends here.
const DEEPEST: usize = 8;

/// More files than any model has; a repository path that was mistyped as a model has more.
const MOST_FILES: usize = 10_000;

/// Files as they were when somebody inspected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp(Vec<(PathBuf, u64, SystemTime)>);

impl Stamp {
    /// The stamp of one file, or of a directory and everything below it.
    ///
    /// # Errors
    /// A sentence that names what cannot be read, or is too much.
    pub(super) fn of(path: &Path) -> Result<Self, String> {
        let mut stamp = Self::default();
        stamp.add(path, DEEPEST)?;
        Ok(stamp)
    }

    /// The stamp of a directory's entries but those that `leave_out` selects.
    ///
    /// # Errors
    /// Like [`Stamp::of`].
    pub(super) fn of_entries(
        directory: &Path,
        leave_out: impl Fn(&Child) -> bool,
    ) -> Result<Self, String> {
        let mut stamp = Self::default();
        for child in layout::children(directory)?
            .iter()
            .filter(|child| !leave_out(child))
        {
            stamp.add(&child.path, DEEPEST - 1)?;
        }
        Ok(stamp)
    }

    fn add(&mut self, path: &Path, depth: usize) -> Result<(), String> {
        // Dangling links are no model files: editors leave them as locks.
        let Ok(metadata) = fs::metadata(path) else {
            return Ok(());
        };
        if metadata.is_dir() {
            return self.add_below(path, depth);
        }
        let modified = metadata
            .modified()
            .map_err(|error| layout::unreadable(path, &error))?;
        self.0.push((path.to_owned(), metadata.len(), modified));
        if self.0.len() > MOST_FILES {
            return Err(format!(
                "'{}' is one of over {MOST_FILES} files",
                path.display()
            ));
        }
        Ok(())
    }

    fn add_below(&mut self, directory: &Path, depth: usize) -> Result<(), String> {
        if depth == 0 {
            return Err(format!(
                "'{}' is over {DEEPEST} levels deep",
                directory.display()
            ));
        }
        layout::children(directory)?
            .iter()
            .try_for_each(|child| self.add(&child.path, depth - 1))
    }
}
