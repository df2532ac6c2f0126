//! Writes the files in a load call to a temporary directory.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use tempfile::TempDir;
use weir_protocol::Code;

use crate::error::ServeError;

/// Prefix of the parameters that hold files.
const PREFIX: &str = "file:";

/// Linux's `NAME_MAX`, in bytes.
const LONGEST_NAME: usize = 255;
const LONGER_THAN_A_NAME: usize = LONGEST_NAME + 1;

/// Limit on a path in bytes: a quarter of Linux's `PATH_MAX`, which includes the temporary directory.
const LONGEST_PATH: usize = 1024;

/// Limit on the number of files: more than any model has. Each file takes an inode.
const MOST_FILES: usize = 1000;

/// Writes a model's files to a new directory, which is deleted when the result is dropped.
///
/// # Errors
/// InvalidArgument for paths that leave the directory or are too long, TooLarge for more than [`MOST_FILES`] files or
/// more than `limit` bytes in total, Internal if the disk fails.
pub(super) fn write(files: &[(String, Bytes)], limit: usize) -> Result<TempDir, ServeError> {
    let bytes: usize = files.iter().map(|(_, content)| content.len()).sum();
    if bytes > limit || files.len() > MOST_FILES {
        return Err(ServeError::TooLarge(format!(
            "{} uploaded files of {bytes} bytes exceed the {MOST_FILES} files or {limit} bytes allowed",
            files.len()
        )));
    }
    let files = checked(files)?;
    let disk = |error: std::io::Error| refusal(format!("cannot store the uploaded files: {error}"), Code::Internal);
    let directory = tempfile::Builder::new().prefix("weir-model-").tempdir().map_err(disk)?;
    for (path, content) in files {
        write_file(&directory.path().join(path), content).map_err(disk)?;
    }
    Ok(directory)
}

/// Returns the paths of the files; checks that they are distinct and inside the model's directory.
fn checked(files: &[(String, Bytes)]) -> Result<Vec<(PathBuf, &Bytes)>, ServeError> {
    let mut seen = BTreeSet::new();
    let mut checked = Vec::with_capacity(files.len());
    for (name, content) in files {
        let path = relative(name)?;
        if !seen.insert(path.clone()) {
            return Err(invalid(format!("file '{name}' is given twice")));
        }
        checked.push((path, content));
    }
    let mut above = seen.iter().flat_map(|path| path.ancestors().skip(1));
    match above.find(|directory| seen.contains(*directory)) {
        Some(both) => Err(invalid(format!("'{}' is both a file and a directory", both.display()))),
        None => Ok(checked),
    }
}

/// Returns the name of a parameter as a path below the model's directory.
fn relative(name: &str) -> Result<PathBuf, ServeError> {
    let path = Path::new(name.strip_prefix(PREFIX).unwrap_or(name));
    let shown: String = name.chars().take(LONGEST_NAME).flat_map(char::escape_debug).collect();
    let refuse = |why: String| Err(invalid(format!("invalid file path '{shown}', {why}")));
    if path.as_os_str().is_empty() {
        return refuse("it does not name a file".to_owned());
    }
    if path.as_os_str().len() > LONGEST_PATH {
        return refuse(format!("it is longer than {LONGEST_PATH} bytes"));
    }
    let mut parts = path.components();
    if name.contains(['\\', '\0']) || !parts.all(|part| matches!(part, Component::Normal(_))) {
        return refuse("file path must not contain path traversal characters".to_owned());
    }
    match path.components().map(|part| part.as_os_str().len()).max() {
        Some(length @ LONGER_THAN_A_NAME..) => {
            refuse(format!("a name in it has {length} bytes, at most {LONGEST_NAME} are allowed"))
        }
        Some(_) | None => Ok(path.components().collect()),
    }
}

fn write_file(path: &Path, content: &[u8]) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, content)
}

fn invalid(message: String) -> ServeError {
    refusal(message, Code::InvalidArgument)
}

fn refusal(message: String, code: Code) -> ServeError {
    ServeError::Repository { message, code }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weir_protocol::{Code, Coded};

    use super::write;

    fn files(names: &[&str]) -> Vec<(String, Bytes)> {
        names.iter().map(|name| ((*name).to_owned(), Bytes::from_static(b"weights"))).collect()
    }

    fn refused(names: &[&str], words: &str) {
        let error = write(&files(names), 1000).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.code(), Code::InvalidArgument);
    }

    #[test]
    fn files_are_written_to_their_paths_and_deleted_with_the_directory() {
        let directory = write(&files(&["file:1/model.pt", "labels.txt"]), 14).unwrap();
        let path = directory.path().to_owned();
        assert_eq!(std::fs::read(path.join("1/model.pt")).unwrap(), b"weights");
        assert!(path.join("labels.txt").exists());
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn paths_that_leave_the_directory_are_refused() {
        for name in ["file:../x", "file:1/../../x", "file:/etc/passwd", "file:./x", "file:1\\x"] {
            refused(&[name], "must not contain path traversal characters");
        }
    }

    #[test]
    fn paths_that_do_not_name_a_file_are_refused() {
        refused(&["file:"], "does not name a file");
        refused(&["file:1/x", "1/x"], "given twice");
        refused(&["file:1", "file:1/model.pt"], "'1' is both a file and a directory");
        refused(&[&format!("file:1/{}", "x".repeat(256))], "256 bytes, at most 255");
    }

    #[test]
    fn too_many_files_or_bytes_are_refused() {
        let error = write(&files(&["1/a", "1/b"]), 13).unwrap_err();
        assert_eq!(error.code(), Code::TooLarge);
        assert!(error.to_string().contains("14 bytes"), "{error}");
    }
}
