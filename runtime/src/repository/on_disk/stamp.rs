//! Change detection for files: by identity, size and times, and optionally by content.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::repository::on_disk::layout::{self, Child};

/// Limit on the directory levels of a model; models have fewer. A symbolic link to a directory above itself exceeds the
/// limit, which ends the recursion with an error.
const DEEPEST: usize = 8;

/// Limit on the files of a model. A mistyped path that is taken for a model has more.
const MOST_FILES: usize = 10_000;

/// Time within which two changes of a file may get the same timestamp. File systems take timestamps from a clock that
/// ticks at least every 10 ms (`CONFIG_HZ=100`). This time is twice as long, because reading the timestamp takes time
/// too.
const CLOCK_TICK: Duration = Duration::from_millis(20);

/// Attempts to read files that keep changing, before the last result is used. The next change is still detected,
/// unless it falls into the same clock tick.
const MOST_LOOKS: usize = 10;

/// Bytes to read at once for a digest: enough to keep a disk busy, and small enough for a processor's cache.
const CHUNK: usize = 1 << 18;

/// Depth of change detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::repository) enum ChangeDetection {
    /// Identity, size and times, which is cheap enough for every poll.
    Metadata,
    /// The content too, for a client that requests the current files, whatever their times are.
    Content,
}

/// Stamp of the files at the time of an inspection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::repository) struct Stamp(Vec<FileStamp>);

/// Stamp of one file; symbolic links are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    path: PathBuf,
    size: u64,
    /// Seconds and nanoseconds of the last write; the writing program can set them.
    modified: (i64, i64),
    /// Seconds and nanoseconds of the last change of any kind, which no program can set.
    changed: (i64, i64),
    /// Device and inode: a file that replaced another by a rename has its own.
    identity: (u64, u64),
    digest: Option<u64>,
}

impl Stamp {
    /// Returns the stamp of one file, or of a directory and everything below it.
    ///
    /// # Errors
    /// A sentence that names a file that cannot be read, or exceeds a limit.
    pub(in crate::repository) fn of(path: &Path, change_detection: ChangeDetection) -> Result<Self, String> {
        Self::settled(change_detection, |stamp| stamp.add(path, DEEPEST))
    }

    /// Returns the stamp of a directory's entries without those that `leave_out` selects.
    ///
    /// # Errors
    /// The same as for [`Stamp::of`].
    pub(in crate::repository) fn of_entries(
        directory: &Path,
        change_detection: ChangeDetection,
        leave_out: impl Fn(&Child) -> bool,
    ) -> Result<Self, String> {
        Self::settled(change_detection, |stamp| {
            layout::children(directory)?
                .iter()
                .filter(|child| !child.is_hidden() && !leave_out(child))
                .try_for_each(|child| stamp.add(&child.path, DEEPEST - 1))
        })
    }

    /// Collects a stamp that every later change is certain to alter. A change in the same clock tick as the last one
    /// might not alter it, so this function waits until the tick is over.
    fn settled(
        change_detection: ChangeDetection,
        collect: impl Fn(&mut Self) -> Result<(), String>,
    ) -> Result<Self, String> {
        let mut stamp = Self::default();
        for _ in 0..MOST_LOOKS {
            stamp.0.clear();
            collect(&mut stamp)?;
            if !stamp.is_fresh(now()) {
                break;
            }
            sleep(CLOCK_TICK);
        }
        match change_detection {
            ChangeDetection::Metadata => Ok(stamp),
            ChangeDetection::Content => stamp.with_digests(),
        }
    }

    /// True if a file changed within the last tick.
    fn is_fresh(&self, now: Duration) -> bool {
        let changed = |file: &FileStamp| {
            let (seconds, nanos) = file.changed;
            Duration::new(seconds.try_into().unwrap_or(0), nanos.try_into().unwrap_or(0))
        };
        // A time in the future comes from another machine's clock, so waiting for it would not help.
        let age = |file| now.checked_sub(changed(file));
        self.0.iter().filter_map(age).any(|age| age < CLOCK_TICK)
    }

    fn with_digests(mut self) -> Result<Self, String> {
        for file in &mut self.0 {
            let digest = digest(&file.path);
            file.digest = Some(digest.map_err(|error| layout::unreadable(&file.path, &error))?);
        }
        Ok(self)
    }

    fn add(&mut self, path: &Path, depth: usize) -> Result<(), String> {
        // Dangling links are skipped: they are not model files, and some editors leave them as locks.
        let Ok(metadata) = fs::metadata(path) else {
            return Ok(());
        };
        if metadata.is_dir() {
            return self.add_below(path, depth);
        }
        // Pipes and devices are skipped: reading a pipe would block, and a device may have no end.
        if !metadata.is_file() {
            return Ok(());
        }
        self.0.push(FileStamp::new(path, &metadata));
        if self.0.len() > MOST_FILES {
            return Err(format!("'{}' is one of more than {MOST_FILES} files", path.display()));
        }
        Ok(())
    }

    fn add_below(&mut self, directory: &Path, depth: usize) -> Result<(), String> {
        if depth == 0 {
            return Err(format!("'{}' is more than {DEEPEST} levels deep", directory.display()));
        }
        layout::children(directory)?
            .iter()
            .filter(|child| !child.is_hidden())
            .try_for_each(|child| self.add(&child.path, depth - 1))
    }
}

impl FileStamp {
    fn new(path: &Path, metadata: &Metadata) -> Self {
        Self {
            path: path.to_owned(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            identity: (metadata.dev(), metadata.ino()),
            digest: None,
        }
    }
}

/// State of directories at the time of an inspection. A file that was absent for a moment, or was replaced by another,
/// changes the state of its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::repository) struct DirectoryStamps(BTreeMap<PathBuf, Option<(u64, u64, i64, i64)>>);

impl DirectoryStamps {
    /// Reads the state of the directories themselves, not of their contents.
    pub(in crate::repository) fn of(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let look = |path: PathBuf| {
            let found = fs::metadata(&path).ok().map(|it| (it.dev(), it.ino(), it.ctime(), it.ctime_nsec()));
            (path, found)
        };
        Self(directories.into_iter().map(look).collect())
    }

    /// True if nothing was added, removed or renamed since. Blocks on the file system.
    pub(in crate::repository) fn are_unchanged(&self) -> bool {
        *self == Self::of(self.0.keys().cloned())
    }
}

/// Digest of a file's content, for detecting changes. The hash is not resistant to attacks.
fn digest(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut digest = DefaultHasher::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(digest.finish()),
            read => digest.write(&chunk[..read]),
        }
    }
}

/// Returns the time since 1970, like the timestamps of files.
#[expect(clippy::disallowed_methods, reason = "timestamps of files are compared with the clock that they come from")]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::time::SystemTime;

    use tempfile::TempDir;

    use super::{ChangeDetection, DirectoryStamps, Stamp};

    const TIME: SystemTime = SystemTime::UNIX_EPOCH;

    fn write(path: &Path, content: &str) {
        fs::write(path, content).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(TIME).unwrap();
    }

    fn stamp(path: &Path) -> Stamp {
        Stamp::of(path, ChangeDetection::Metadata).unwrap()
    }

    #[test]
    fn unchanged_files_have_equal_stamps() {
        let folder = TempDir::new().unwrap();
        write(&folder.path().join("model.pt"), "one");
        assert_eq!(stamp(folder.path()), stamp(folder.path()));
    }

    #[test]
    fn an_equal_size_and_time_do_not_hide_a_change() {
        let folder = TempDir::new().unwrap();
        let (path, other) = (folder.path().join("model.pt"), folder.path().join("other"));
        write(&path, "one");
        for replace in [(|path: &Path, _: &Path| write(path, "two")) as fn(&Path, &Path), |path, other| {
            write(other, "six");
            fs::rename(other, path).unwrap();
        }] {
            let before = stamp(&path);
            replace(&path, &other);
            assert_ne!(before, stamp(&path));
        }
    }

    #[test]
    fn changes_in_quick_succession_are_all_detected() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("model.pt");
        let mut before = Stamp::default();
        for content in ["one", "two", "six", "ten"] {
            write(&path, content);
            let after = stamp(&path);
            assert_ne!(before, after, "{content}");
            before = after;
        }
    }

    #[test]
    fn a_link_with_a_new_target_is_a_change() {
        let folder = TempDir::new().unwrap();
        for data in ["..1", "..2"] {
            fs::create_dir(folder.path().join(data)).unwrap();
            write(&folder.path().join(data).join("model.pt"), data);
        }
        let (link, next) = (folder.path().join("..data"), folder.path().join("..next"));
        symlink("..1", &link).unwrap();
        symlink("..data/model.pt", folder.path().join("model.pt")).unwrap();
        let before = stamp(folder.path());
        symlink("..2", &next).unwrap();
        fs::rename(&next, &link).unwrap();
        assert_ne!(before, stamp(folder.path()));
    }

    #[test]
    fn hidden_files_are_ignored() {
        let folder = TempDir::new().unwrap();
        write(&folder.path().join("model.pt"), "one");
        let before = stamp(folder.path());
        write(&folder.path().join(".model.pt.Xa41bQ"), "tw");
        assert_eq!(before, stamp(folder.path()));
    }

    #[test]
    fn a_directory_that_was_absent_has_changed() {
        let folder = TempDir::new().unwrap();
        let (model, away) = (folder.path().join("m"), folder.path().join("away"));
        fs::create_dir(&model).unwrap();
        let before = DirectoryStamps::of([model.clone()]);
        assert!(before.are_unchanged());
        fs::rename(&model, &away).unwrap();
        assert!(!before.are_unchanged());
        // Longer than a tick of the file system's clock.
        std::thread::sleep(super::CLOCK_TICK);
        fs::rename(&away, &model).unwrap();
        assert!(!before.are_unchanged());
    }

    #[test]
    fn contents_count_if_they_are_read() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("model.pt");
        let digest = |content| {
            write(&path, content);
            let stamp = Stamp::of(&path, ChangeDetection::Content).unwrap();
            stamp.0[0].digest.unwrap()
        };
        let (one, two, again) = (digest("one"), digest("two"), digest("one"));
        assert_ne!(one, two);
        assert_eq!(one, again);
    }
}
