//! Reads the files of a directory as an entry.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::sync::mpsc::Sender;

use super::framing::head;
use super::manifest::{CachedFile, EntryManifest};

/// Bytes of one chunk.
const CHUNK: usize = 256 << 10;

/// Lists the files of a directory, sorted by path, and its empty directories.
///
/// # Errors
/// Fails if the directory cannot be read, or has something other than files and directories, such as links.
pub(super) fn list(folder: &Path) -> io::Result<EntryManifest> {
    let mut manifest = EntryManifest::default();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        let mut is_empty = true;
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let (path, kind) = (below.join(entry.file_name()), entry.file_type()?);
            is_empty = false;
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() {
                manifest.files.push(CachedFile { path: text(&path)?, size: entry.metadata()?.len(), sha256: None });
            } else {
                return Err(invalid(format!("{} is neither a file nor a directory", path.display())));
            }
        }
        if is_empty && !below.as_os_str().is_empty() {
            manifest.directories.push(text(&below)?);
        }
    }
    manifest.files.sort_by(|a, b| a.path.cmp(&b.path));
    manifest.directories.sort();
    manifest.check().map_err(invalid)?;
    Ok(manifest)
}

/// Sends an entry to a task that uploads it, on a thread for blocking work. Ends early if the upload has ended.
pub(super) fn send(folder: &Path, manifest: &EntryManifest, to: &Sender<io::Result<Bytes>>) {
    if let Err(error) = send_all(folder, manifest, to) {
        let _ = to.blocking_send(Err(error));
    }
}

fn send_all(folder: &Path, manifest: &EntryManifest, to: &Sender<io::Result<Bytes>>) -> io::Result<()> {
    let is_wanted = |chunk: Vec<u8>| to.blocking_send(Ok(chunk.into())).is_ok();
    if !is_wanted(head(manifest)?) {
        return Ok(());
    }
    for listed in &manifest.files {
        let mut file = File::open(folder.join(&listed.path))?.take(listed.size);
        let mut left = listed.size;
        while left > 0 {
            let most = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
            let mut chunk = vec![0; most];
            file.read_exact(&mut chunk)?;
            left -= most as u64;
            if !is_wanted(chunk) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn text(path: &Path) -> io::Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| invalid(format!("{} is not UTF-8", path.display())))
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_empty_directories_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        for directory in ["b/1", "a/2", "empty/1"] {
            fs::create_dir_all(folder.path().join(directory)).unwrap();
        }
        fs::write(folder.path().join("b/1/model.pt"), "12345").unwrap();
        fs::write(folder.path().join("a/2/x"), "").unwrap();
        let found = list(folder.path()).unwrap();
        let files: Vec<_> = found.files.iter().map(|file| (file.path.as_str(), file.size)).collect();
        assert_eq!(files, [("a/2/x", 0), ("b/1/model.pt", 5)]);
        assert_eq!(found.directories, ["empty/1"]);
    }

    #[test]
    fn links_are_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("elsewhere", folder.path().join("link")).unwrap();
        assert!(list(folder.path()).unwrap_err().to_string().contains("neither a file nor a directory"));
    }

    #[test]
    fn the_stream_has_the_manifest_and_all_bytes() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), vec![7; CHUNK + 1]).unwrap();
        let manifest = list(folder.path()).unwrap();
        let (sender, mut chunks) = tokio::sync::mpsc::channel(8);
        send(folder.path(), &manifest, &sender);
        drop(sender);
        let mut all = Vec::new();
        while let Some(chunk) = chunks.blocking_recv() {
            all.extend_from_slice(&chunk.unwrap());
        }
        let mut stream = &all[..];
        assert_eq!(super::super::framing::read_manifest(&mut stream).unwrap(), manifest);
        assert_eq!(stream, vec![7; CHUNK + 1]);
    }

    #[test]
    fn a_file_that_shrank_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "12345").unwrap();
        let manifest = list(folder.path()).unwrap();
        fs::write(folder.path().join("a"), "1").unwrap();
        let (sender, mut chunks) = tokio::sync::mpsc::channel(8);
        send(folder.path(), &manifest, &sender);
        assert!(chunks.try_recv().unwrap().is_ok());
        assert!(chunks.try_recv().unwrap().is_err());
    }
}
