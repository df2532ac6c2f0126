//! Reads small files that users put beside models: configurations, labels, examples, data for warm-up runs.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Reads a file of at most `longest` bytes. Symbolic links are followed.
///
/// # Errors
/// If the file is larger, cannot be read, or is not a regular file. The type is checked before opening: opening a pipe
/// would block, and a device may have no end.
pub(crate) fn read(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is a pipe, a socket or a device, not a file"));
    }
    let too_long = || io::Error::other(format!("it is larger than {longest} bytes"));
    if metadata.len() > longest {
        return Err(too_long());
    }
    // The file may grow after the check, and files in `/proc` report no length.
    let mut bytes = Vec::new();
    let read = File::open(path)?.take(longest.saturating_add(1)).read_to_end(&mut bytes)?;
    if read as u64 > longest {
        return Err(too_long());
    }
    Ok(bytes)
}

/// Reads a text file of at most `longest` bytes.
///
/// # Errors
/// The same as for [`read`], and if the bytes are not UTF-8.
pub(crate) fn read_text(path: &Path, longest: u64) -> io::Result<String> {
    let bytes = read(path, longest)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
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
        assert_eq!(error, "it is not UTF-8 text");
    }

    #[test]
    fn devices_and_sockets_are_refused_without_opening_them() {
        let folder = tempfile::tempdir().unwrap();
        let (zero, socket) = (folder.path().join("zero"), folder.path().join("socket"));
        symlink("/dev/zero", &zero).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [&zero, &socket] {
            let error = read(path, 1 << 20).unwrap_err().to_string();
            assert!(error.ends_with("not a file"), "{error}");
        }
        let error = read(folder.path(), 1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        let error = read(Path::new("/proc/self/maps"), 10).unwrap_err().to_string();
        assert_eq!(error, "it is larger than 10 bytes");
    }
}
