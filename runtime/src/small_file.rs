//! Small files that people put beside models: configurations, labels, examples, data of warm-up runs.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Reads a file of at most `longest` bytes. Symbolic links count as what they point to.
///
/// # Errors
/// What is no file is refused before it is opened: a pipe would be waited for, and a device may have no end.
pub(crate) fn read(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is a pipe, a socket or a device, and no file"));
    }
    let too_long = || io::Error::other(format!("it is larger than {longest} bytes"));
    if metadata.len() > longest {
        return Err(too_long());
    }
    // A file may grow meanwhile, or have no length of its own as those of /proc.
    let mut bytes = Vec::new();
    let read = File::open(path)?.take(longest.saturating_add(1)).read_to_end(&mut bytes)?;
    if read as u64 > longest {
        return Err(too_long());
    }
    Ok(bytes)
}

/// Reads a text as [`read`] does.
///
/// # Errors
/// Those of [`read`], and bytes that are not UTF-8.
pub(crate) fn read_text(path: &Path, longest: u64) -> io::Result<String> {
    let bytes = read(path, longest)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn files_are_read_up_to_their_limit() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("f"), folder.path().join("link"));
        fs::write(&path, "four").unwrap();
        symlink("f", &link).unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"four");
        assert_eq!(read_text(&link, 5).unwrap(), "four");
        let error = read(&path, 3).unwrap_err().to_string();
        assert_eq!(error, "it is larger than 3 bytes");
        fs::write(&path, b"\xff").unwrap();
        let error = read_text(&path, 4).unwrap_err().to_string();
        assert_eq!(error, "it is no text in UTF-8");
    }

    #[test]
    fn what_is_no_file_is_never_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (zero, socket) = (folder.path().join("zero"), folder.path().join("socket"));
        symlink("/dev/zero", &zero).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [&zero, &socket] {
            let error = read(path, 1 << 20).unwrap_err().to_string();
            assert!(error.ends_with("and no file"), "{error}");
        }
        let error = read(folder.path(), 1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        let error = read(Path::new("/proc/self/maps"), 10).unwrap_err().to_string();
        assert_eq!(error, "it is larger than 10 bytes");
    }
}
