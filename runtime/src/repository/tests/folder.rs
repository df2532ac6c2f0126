//! Repositories on disk for tests, built file by file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// A directory that is deleted at the end of the test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Creates a directory with models of these names and versions.
    pub(crate) fn with(models: &[(&str, &[u64])]) -> Self {
        let folder = Self::new();
        for (name, versions) in models {
            for version in *versions {
                folder.write(&format!("{name}/{version}/model.pt"), "weights");
            }
        }
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn at(&self, relative: &str) -> PathBuf {
        self.path().join(relative)
    }

    pub(crate) fn write(&self, relative: &str, content: &str) -> &Self {
        let path = self.at(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn directory(&self, relative: &str) -> &Self {
        fs::create_dir_all(self.at(relative)).unwrap();
        self
    }

    /// Makes a file look changed, even within a tick of the file system's clock.
    pub(crate) fn touch(&self, relative: &str, seconds: u64) -> &Self {
        let file = fs::File::options().write(true).open(self.at(relative)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        self
    }

    /// Replaces a file with another of the same size and time, like `cp -p` and `rsync --inplace`.
    pub(crate) fn overwrite(&self, relative: &str, content: &str) -> &Self {
        let modified = |path| fs::metadata(path).unwrap().modified().unwrap();
        let before = modified(self.at(relative));
        fs::write(self.at(relative), content).unwrap();
        let file = fs::File::options().write(true).open(self.at(relative));
        file.unwrap().set_modified(before).unwrap();
        self
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> &Self {
        fs::rename(self.at(from), self.at(to)).unwrap();
        self
    }

    /// Creates a symbolic link at `relative`, and replaces an existing one.
    pub(crate) fn link(&self, target: &str, relative: &str) -> &Self {
        symlink(target, self.at("..link")).unwrap();
        self.rename("..link", relative)
    }

    pub(crate) fn remove(&self, relative: &str) -> &Self {
        fs::remove_dir_all(self.at(relative)).unwrap();
        self
    }
}
