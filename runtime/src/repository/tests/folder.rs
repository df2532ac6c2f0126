//! Repositories on disk, built a file at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// A directory that goes with the test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// With a model of these versions for each name.
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

    /// Makes a file look changed, whatever the file system's clock ticks in.
    pub(crate) fn touch(&self, relative: &str, seconds: u64) -> &Self {
        let file = fs::File::options()
            .write(true)
            .open(self.at(relative))
            .unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
            .unwrap();
        self
    }

    pub(crate) fn remove(&self, relative: &str) -> &Self {
        fs::remove_dir_all(self.at(relative)).unwrap();
        self
    }
}
