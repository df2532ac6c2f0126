//! One replica's log file, read by the line while it grows.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most bytes of a file that are read at once; `weir up` begins another after 4 MiB.
const MAX_READ: u64 = 64 << 20;

/// The log file of one replica, and how far it has been read.
#[derive(Debug)]
pub(super) struct LogReader {
    path: PathBuf,
    read: Option<Position>,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
}

/// The end of what has been read.
#[derive(Clone, Copy, Debug)]
struct Position {
    /// Number of the file, which becomes another when the log is rotated.
    inode: u64,
    offset: u64,
}

impl LogReader {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, read: None, partial: Vec::new() }
    }

    /// The complete lines that were added since the last call; at the first call all of them, the rotated file's
    /// first.
    ///
    /// # Errors
    /// The file cannot be read. One that is gone has no lines.
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
            // Replaced by that of a new replica.
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

/// Appends a file's bytes from this offset; their number.
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

    /// A log as `weir up` writes it.
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
    fn a_file_that_is_not_there_yet_has_no_lines() {
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
                        // One rotation between two reads, as a file takes long to fill.
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
