//! A part of a file as a file of its own.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A part of a file. Several parts of a file may be read in turn, because each has a position of its own.
pub(crate) struct Section {
    file: Arc<File>,
    start: u64,
    length: u64,
    position: u64,
}

impl Section {
    pub(crate) fn new(file: Arc<File>, start: u64, length: u64) -> Self {
        Self { file, start, length, position: 0 }
    }
}

impl Read for Section {
    fn read(&mut self, target: &mut [u8]) -> Result<usize> {
        let left = self.length.saturating_sub(self.position);
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(target.len());
        let count = self.file.read_at(&mut target[..most], self.start.saturating_add(self.position))?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Section {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = position.ok_or_else(|| Error::from(ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read_as_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"before|inside|after").unwrap();
        let mut section = Section::new(Arc::new(File::open(&path).unwrap()), 7, 6);
        let mut text = String::new();
        section.read_to_string(&mut text).unwrap();
        assert_eq!(text, "inside");
        assert_eq!(section.seek(SeekFrom::End(-4)).unwrap(), 2);
        text.clear();
        section.read_to_string(&mut text).unwrap();
        assert_eq!(text, "side");
        assert_eq!(section.seek(SeekFrom::Start(99)).unwrap(), 99);
        assert_eq!(section.read(&mut [0; 4]).unwrap(), 0);
        assert!(section.seek(SeekFrom::End(-7)).is_err());
    }
}
