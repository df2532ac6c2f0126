//! The directory that an operator names for a cache. It is used only if it is certainly a cache's.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use crate::error::CacheError;
use crate::folder::Folder;

/// File that marks the directory of a cache. The process that uses the cache has it locked.
const MARKER: &str = ".weir-model-cache";

/// Text of the marker, for people. The program reads only the name of the file.
const TEXT: &str = "The directory of weir model-cache, which removes the models in it.\n";

/// The directory of a cache, which no other process uses.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) folder: Folder,
    /// The marker, which stays locked as long as it is open.
    _marker: File,
}

impl Root {
    /// Opens the directory of a cache. A directory that is missing or empty becomes one; nothing is changed in any other.
    ///
    /// # Errors
    /// [`CacheError::Refused`] for a link, the root of the file system, a directory of another user, one that all users can
    /// write, one that has files and no marker of a cache, and one that another process uses.
    pub(crate) fn open(path: &Path) -> Result<Self, CacheError> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(CacheError::file(path))?;
        let folder = Folder::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory => refused("it is a link or no directory"),
            _ => CacheError::file(path)(error),
        })?;
        check(&folder).map_err(CacheError::file(path))??;
        let marker = marker(&folder)?;
        marker.try_lock().map_err(|_| refused("another process uses it"))?;
        Ok(Self { folder, _marker: marker })
    }
}

/// Checks that the directory is not the root of the file system, belongs to this user, and cannot be written by all
/// users.
fn check(folder: &Folder) -> io::Result<Result<(), CacheError>> {
    let (found, root) = (folder.metadata()?, Path::new("/").metadata()?);
    let reason = if (found.dev(), found.ino()) == (root.dev(), root.ino()) {
        "it is the root of the file system"
    } else if found.uid() != rustix::process::geteuid().as_raw() {
        "it belongs to another user"
    } else if found.mode() & 0o002 != 0 {
        "all users can write to it"
    } else {
        return Ok(Ok(()));
    };
    Ok(Err(refused(reason)))
}

/// Opens the marker of a cache, and creates it in an empty directory.
fn marker(folder: &Folder) -> Result<File, CacheError> {
    let file = || CacheError::file(folder.path_of(MARKER));
    if !folder.names()?.is_empty() {
        let marker = folder.file(MARKER);
        return marker.map_err(|_| refused("it has files, and no cache's; name a new or an empty directory"));
    }
    let mut marker = folder.create(MARKER).map_err(file())?;
    marker.write_all(TEXT.as_bytes()).map_err(file())?;
    Ok(marker)
}

fn refused(reason: &str) -> CacheError {
    CacheError::Refused(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn reason(path: &Path) -> String {
        Root::open(path).unwrap_err().to_string()
    }

    #[test]
    fn a_new_or_an_empty_directory_becomes_a_cache() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().join("new/cache"), folder.path().join("empty")] {
            drop(Root::open(&path.join("")).unwrap());
            let used = Root::open(&path).unwrap();
            assert!(reason(&path).contains("another process uses it"));
            drop(used);
            // A marker without its text, as an interrupted start leaves it.
            fs::write(path.join(MARKER), "").unwrap();
            drop(Root::open(&path).unwrap());
        }
    }

    #[test]
    fn a_directory_with_other_files_is_refused_and_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("hosts"), "127.0.0.1").unwrap();
        for name in ["entries/team/x", "staged/x"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        assert!(reason(path).contains("it has files, and no cache's"));
        symlink(path.join("hosts"), path.join(MARKER)).unwrap();
        assert!(reason(path).contains("it has files, and no cache's"));
        assert_eq!(fs::read(path.join("hosts")).unwrap(), b"127.0.0.1");
        assert!(path.join("entries/team/x").is_dir() && path.join("staged/x").is_dir());
        assert_eq!(fs::read_dir(path).unwrap().count(), 4);
    }

    #[test]
    fn a_link_to_a_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("directory")).unwrap();
        symlink(folder.path().join("directory"), folder.path().join("link")).unwrap();
        for name in ["link", "link/"] {
            assert!(reason(&folder.path().join(name)).contains("it is a link or no directory"));
        }
        assert_eq!(fs::read_dir(folder.path().join("directory")).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_all_users_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("open");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o1777)).unwrap();
        assert!(reason(&path).contains("all users can write to it"));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }
}
