//! Reads one replica's log file line by line while it grows.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most bytes that are read from a file at once; `weir up` rotates a log after 4 MiB.
const MAX_READ: u64 = 64 << 20;

/// Reader of one replica's log file, with its position.
#[derive(Debug)]
pub(super) struct LogReader {
    path: PathBuf,
    read: Option<Position>,
    /// Beginning of a line whose end has not been written yet.
    partial: Vec<u8>,
}

/// Position up to which a file has been read.
#[derive(Clone, Copy, Debug)]
struct Position {
    /// Inode of the file, which changes when the log is rotated.
    inode: u64,
    offset: u64,
}

impl LogReader {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, read: None, partial: Vec::new() }
    }

    /// Returns the complete lines that were added since the last call. The first call returns all lines, those of the
    /// rotated file first.
    ///
    /// # Errors
    /// An error if the file cannot be read. A missing file has no lines.
    pub(super) fn lines(&mut self) -> io::Result<Vec<String>> {
        let mut bytes = std::mem::take(&mut self.partial);
        match self.read_new(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        self.partial = bytes.split_off(end.map_or(0, |end| end + 1));
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.lines().map(str::to_owned).collect())
    }

    fn read_new(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let rotated = self.path.with_extension("log.1");
        let now = fs::metadata(&self.path)?;
        let from = match self.read {
            Some(read) if read.inode == now.ino() && read.offset <= now.len() => read.offset,
            // The file was truncated by a new replica of the same name.
            Some(read) if read.inode == now.ino() => 0,
            Some(read) => {
                let is_ours = fs::metadata(&rotated).is_ok_and(|old| old.ino() == read.inode);
                if is_ours {
                    read_from(&rotated, read.offset, bytes)?;
                }
                0
            }
            None => {
                if rotated.exists() {
                    read_from(&rotated, 0, bytes)?;
                }
                0
            }
        };
        let offset = from + read_from(&self.path, from, bytes)?;
        let inode = now.ino();
        self.read = Some(Position { inode, offset });
        Ok(())
    }
}

/// Appends a file's bytes from this offset, and returns their number.
fn read_from(path: &Path, offset: u64, bytes: &mut Vec<u8>) -> io::Result<u64> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let read = file.take(MAX_READ).read_to_end(bytes)?;
    Ok(read as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// A log file, written and rotated as `weir up` does.
    struct Log {
        folder: tempfile::TempDir,
        file: File,
    }

    impl Log {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = File::create(folder.path().join("a.log")).unwrap();
            Self { folder, file }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("a.log")
        }

        fn rotate(&mut self) {
            fs::rename(self.path(), self.folder.path().join("a.log.1")).unwrap();
            self.file = File::create(self.path()).unwrap();
        }
    }

    #[test]
    fn a_missing_file_has_no_lines() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = LogReader::new(folder.path().join("a.log"));
        assert_eq!(reader.lines().unwrap(), [""; 0]);
    }

    #[test]
    fn a_replaced_file_is_read_from_its_beginning() {
        let mut log = Log::new();
        let mut reader = LogReader::new(log.path());
        writeln!(log.file, "one long line").unwrap();
        assert_eq!(reader.lines().unwrap(), ["one long line"]);
        log.file = File::create(log.path()).unwrap();
        writeln!(log.file, "new").unwrap();
        assert_eq!(reader.lines().unwrap(), ["new"]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(String),
        Rotate,
        Read,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof!["[a-z\n]{0,12}".prop_map(Step::Write), Just(Step::Rotate), Just(Step::Read),]
    }

    proptest! {
        #[test]
        fn every_line_is_read_once_over_rotations(steps in proptest::collection::vec(step(), 0..40)) {
            let mut log = Log::new();
            let mut reader = LogReader::new(log.path());
            let (mut written, mut read) = (String::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Write(text) => {
                        log.file.write_all(text.as_bytes()).unwrap();
                        written += &text;
                    }
                    Step::Rotate => {
                        // Only one rotation happens between two reads, because a file takes long to fill.
                        read.extend(reader.lines().unwrap());
                        log.rotate();
                    }
                    Step::Read => read.extend(reader.lines().unwrap()),
                }
            }
            log.file.write_all(b"\n").unwrap();
            written.push('\n');
            read.extend(reader.lines().unwrap());
            prop_assert_eq!(read, written.lines().collect::<Vec<_>>());
        }
    }
}
