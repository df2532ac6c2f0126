//! Directories by their file descriptors. Each operation takes the name of one child and follows no link, so that no name
//! and no link leads out of the directory.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::error::CacheError;

/// Mode of new directories: no other user reads the models.
const PRIVATE: Mode = Mode::RWXU;

/// An open directory. It stays the same directory if its path leads elsewhere later.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    /// Path that messages show.
    path: PathBuf,
}

impl Folder {
    /// Opens a directory. Links among its parents are followed, a link in its place is not.
    ///
    /// # Errors
    /// Fails if the path is a link, or no directory.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // A slash at the end would make the kernel follow a link.
        let path: PathBuf = path.components().collect();
        let fd = openat(CWD, &path, directory(), Mode::empty())?;
        Ok(Self { fd, path })
    }

    /// Returns the path for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a child for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the attributes of the directory.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        File::from(self.fd.try_clone()?).metadata()
    }

    /// Opens a child that is a directory; `None` if there is no child with this name.
    ///
    /// # Errors
    /// Fails if the child is a link or a file.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Self>, CacheError> {
        let path = self.path_of(name);
        match openat(&self.fd, checked(name)?, directory(), Mode::empty()) {
            Ok(fd) => Ok(Some(Self { fd, path })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(CacheError::file(path)(error.into())),
        }
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// Fails if a child has this name.
    pub(crate) fn make(&self, name: &str) -> Result<Self, CacheError> {
        let path = self.path_of(name);
        mkdirat(&self.fd, checked(name)?, PRIVATE).map_err(|error| CacheError::file(&path)(error.into()))?;
        let made = self.find(name)?;
        made.ok_or_else(|| CacheError::file(path)(io::ErrorKind::NotFound.into()))
    }

    /// Opens a child that is a directory, and makes it if no child has this name.
    pub(crate) fn find_or_make(&self, name: &str) -> Result<Self, CacheError> {
        match self.find(name)? {
            Some(found) => Ok(found),
            None => self.make(name),
        }
    }

    /// Returns the names of all children. Bytes that are not UTF-8 are replaced, and then no child has the name.
    pub(crate) fn names(&self) -> Result<Vec<String>, CacheError> {
        let failed = |error: Errno| CacheError::file(&self.path)(error.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            if !matches!(name.as_str(), "." | "..") {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Fails if the child is a link, a directory or a device.
    pub(crate) fn file(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OFlags::RDONLY)
    }

    /// Opens a regular file, whose times can be set.
    ///
    /// # Errors
    /// Fails for the same children as [`Folder::file`].
    pub(crate) fn writable(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OFlags::WRONLY | OFlags::APPEND)
    }

    /// Creates a file.
    ///
    /// # Errors
    /// Fails if a child has this name.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.fd, checked_name(name)?, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Reads a regular file of at most `most` bytes.
    pub(crate) fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(name)?.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    }

    /// Removes a file, or a link itself. A directory is refused.
    pub(crate) fn remove_file(&self, name: &str) -> Result<(), CacheError> {
        self.unlink(name, AtFlags::empty())
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, name: &str) -> Result<(), CacheError> {
        self.unlink(name, AtFlags::REMOVEDIR)
    }

    /// Moves a child into another directory of the same file system.
    pub(crate) fn rename(&self, name: &str, to: &Self, new: &str) -> Result<(), CacheError> {
        let moved = renameat(&self.fd, checked(name)?, &to.fd, checked(new)?);
        moved.map_err(|error| CacheError::file(to.path_of(new))(error.into()))
    }

    fn unlink(&self, name: &str, flags: AtFlags) -> Result<(), CacheError> {
        match unlinkat(&self.fd, checked(name)?, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(CacheError::file(self.path_of(name))(error.into())),
        }
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // A pipe would otherwise block until it has a writer.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.fd, checked_name(name)?, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }
}

fn directory() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn checked(name: &str) -> Result<&str, CacheError> {
    checked_name(name).map_err(CacheError::file(name))
}

/// Returns the name if it is that of a child.
fn checked_name(name: &str) -> io::Result<&str> {
    let leads_elsewhere = matches!(name, "" | "." | "..") || name.contains(['/', '\0']);
    if leads_elsewhere { Err(io::ErrorKind::InvalidFilename.into()) } else { Ok(name) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_name_and_no_link_leads_out_of_a_directory() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("0"), "kept").unwrap();
        symlink(outside.path(), inside.path().join("directory")).unwrap();
        symlink(outside.path().join("0"), inside.path().join("file")).unwrap();
        let folder = Folder::open(inside.path()).unwrap();
        assert!(folder.find("directory").is_err() && folder.find_or_make("directory").is_err());
        assert!(folder.file("file").is_err() && folder.writable("file").is_err() && folder.create("file").is_err());
        let above = outside.path().file_name().unwrap().to_str().unwrap();
        for name in ["", ".", "..", "directory/0", &format!("../{above}/0"), outside.path().to_str().unwrap()] {
            assert!(folder.find(name).is_err() && folder.make(name).is_err(), "{name}");
            assert!(folder.file(name).is_err() && folder.create(name).is_err(), "{name}");
            assert!(folder.remove_file(name).is_err() && folder.remove_directory(name).is_err(), "{name}");
            assert!(folder.rename("file", &folder, name).is_err(), "{name}");
        }
        for link in ["", "/", "/."] {
            let path = format!("{}/directory{link}", inside.path().display());
            assert!(Folder::open(Path::new(&path)).is_err(), "{path}");
        }
        for link in ["directory", "file"] {
            assert!(folder.remove_directory(link).is_err());
            folder.remove_file(link).unwrap();
        }
        assert_eq!(fs::read(outside.path().join("0")).unwrap(), b"kept");
        assert_eq!(folder.names().unwrap(), [""; 0]);
    }

    #[test]
    fn directories_are_removed_only_when_they_are_empty() {
        let inside = tempfile::tempdir().unwrap();
        let folder = Folder::open(inside.path()).unwrap();
        let child = folder.make("a").unwrap();
        child.create("0").unwrap().write_all(b"content").unwrap();
        assert!(folder.remove_directory("a").is_err() && folder.remove_file("a").is_err());
        assert_eq!(child.read("0", 7).unwrap(), b"content");
        assert!(child.read("0", 6).is_err() && folder.file("a").is_err());
        child.remove_file("0").unwrap();
        folder.remove_directory("a").unwrap();
        folder.remove_directory("a").unwrap();
        assert!(folder.find("a").unwrap().is_none());
    }
}
