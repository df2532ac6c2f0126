//! The directory at the end of a zip archive: the names of its entries and their offsets.

use std::cell::Cell;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use zip::ZipArchive;
use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;

use super::advice::{Advice, KERAS, NUMPY, OLD_EXPORTED, PACKAGE, UNPACK};
use super::shown;

/// Name of the entry that describes an archive of TorchServe.
pub(super) const MANIFEST: &str = "MAR-INF/MANIFEST.json";

/// First bytes of an entry, and so of an archive.
pub(super) const ENTRY: &[u8] = b"PK\x03\x04";

/// First bytes of an entry's record in the directory.
const DESCRIPTION: &[u8] = b"PK\x01\x02";
/// Size in bytes of the fixed part of such a record.
const DESCRIPTION_SIZE: usize = 46;

/// First bytes of the record at the end of an archive.
const END: &[u8] = b"PK\x05\x06";
/// Size in bytes of this record without its comment.
const END_SIZE: usize = 22;

/// First bytes of the zip64 end record, which precedes the record of [`END`] in large archives and has the directory's
/// offset at byte 48.
const LARGE_END: &[u8] = b"PK\x06\x06";

/// Bytes at the end of an archive that are certain to contain the end records: the longest comment, the end record, and
/// the two zip64 records of 56 and 20 bytes.
const TAIL: u64 = 65_535 + 22 + 56 + 20;

/// Limit on the bytes of the directory to read: about 50 000 entries, more than any model has.
const LONGEST: u64 = 4 << 20;

/// Size of the fixed part of an entry, which its name and its extra field follow.
const ENTRY_SIZE: usize = 30;

/// Entries of a zip archive, as its directory lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZipDirectory {
    entries: Vec<Entry>,
    /// Hash of the directory, which has a checksum of the contents of each entry.
    pub(super) hash: u64,
}

/// An entry's name and position.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    offset: u64,
    compressed: bool,
}

impl ZipDirectory {
    /// Reads the directory of an archive; `None` if it is missing, as in an archive that was cut off.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let tail_at = size.saturating_sub(TAIL);
        let tail = read_at(&mut file, tail_at, TAIL)?;
        let Some(offset) = directory_offset(&tail).filter(|offset| *offset < size) else {
            return Ok(None);
        };
        let directory = read_at(&mut file, offset, LONGEST.min(size - offset))?;
        let mut hasher = DefaultHasher::new();
        directory.hash(&mut hasher);
        Ok(Some(Self { entries: entries(&directory), hash: hasher.finish() }))
    }

    /// True if the archive has the constants file that every TorchScript file has and files of `torch.save` lack.
    pub(super) fn has_constants(&self) -> bool {
        self.has_inner("constants.pkl")
    }

    /// True if the archive is a program of torch.export, which holds its graph under this name.
    pub(super) fn has_program(&self) -> bool {
        self.has_inner("models/model.json") && self.has_inner("archive_format")
    }

    /// True if the archive is an AOTInductor package, which holds no program.
    pub(super) fn is_compiled(&self) -> bool {
        let is_old = self.has_inner("serialized_exported_program.json");
        self.has_inner("archive_format") && !is_old && !self.has_program()
    }

    /// True if the archive is one of TorchServe's, whatever else it holds.
    pub(super) fn is_torchserve(&self) -> bool {
        self.entries.iter().any(|entry| entry.name == MANIFEST)
    }

    /// Returns advice for archives of other formats, by the names of their entries.
    pub(super) fn advice(&self) -> Option<Advice> {
        let inner = |name: &str| self.has_inner(name);
        let is_numpy = !self.entries.is_empty() && self.entries.iter().all(|entry| entry.name.ends_with(".npy"));
        let known = [
            (inner("serialized_exported_program.json"), &OLD_EXPORTED),
            (inner("model.weights.h5"), &KERAS),
            (inner(".data/extern_modules"), &PACKAGE),
            (is_numpy, &NUMPY),
        ];
        if let Some((_, format)) = known.iter().find(|(matches, _)| *matches) {
            return Some(Advice::from(*format));
        }
        if inner("data.pkl") {
            return None;
        }
        let model = [".pt", ".pth", ".onnx", ".safetensors"];
        let inside = self.entries.iter().find(|entry| model.iter().any(|end| entry.name.ends_with(end)));
        let holds = |entry: &Entry| format!(" that holds '{}'", shown(&entry.name));
        Some(Advice { what: format!("a zip archive{}", inside.map(holds).unwrap_or_default()), remedy: UNPACK })
    }

    /// Returns the first bytes of the archive's `data.pkl`; nothing if the entry is missing or compressed.
    pub(super) fn pickle_start(&self, path: &Path, longest: u64) -> io::Result<Vec<u8>> {
        let is_pickle = |entry: &&Entry| {
            let name = entry.name.rsplit_once('/').map_or(&*entry.name, |(_, name)| name);
            name == "data.pkl" && !entry.compressed
        };
        let Some(entry) = self.entries.iter().find(is_pickle) else {
            return Ok(Vec::new());
        };
        let mut file = File::open(path)?;
        let head = read_at(&mut file, entry.offset, ENTRY_SIZE as u64)?;
        let skip = usize::from(u16_at(&head, 26).unwrap_or(0)) + usize::from(u16_at(&head, 28).unwrap_or(0));
        read_at(&mut file, entry.offset + (ENTRY_SIZE + skip) as u64, longest)
    }

    /// True if the archive has an entry with this name, at the top or in the single folder in which `torch.save` and
    /// `torch.jit.save` put everything.
    fn has_inner(&self, name: &str) -> bool {
        let is_inner = |entry: &Entry| {
            let in_folder = entry.name.split_once('/');
            entry.name == name || in_folder.is_some_and(|(_, rest)| rest == name)
        };
        self.entries.iter().any(is_inner)
    }
}

/// A zip archive whose directory has been read.
pub(super) type OpenArchive = ZipArchive<Metered>;

/// A file that may be read for a limited number of bytes.
pub(super) struct Metered {
    file: BufReader<File>,
    left: Rc<Cell<u64>>,
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            return Err(io::Error::other(format!("its directory has more than {LONGEST} bytes")));
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read(&mut buffer[..most])?;
        self.left.set(left - read as u64);
        Ok(read)
    }
}

impl Seek for Metered {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Opens a zip archive that begins with its file. For some lengths of names, a reader that searches for the beginning
/// would mistake the zip64 records that torch writes for a shift of the directory. The library keeps about ten times the
/// size of the directory in memory, so a directory of more than [`LONGEST`] bytes is an error.
pub(super) fn open_archive(path: &Path) -> Result<OpenArchive, ZipError> {
    let from_start = Config { archive_offset: ArchiveOffset::Known(0) };
    let left = Rc::new(Cell::new(LONGEST + TAIL));
    let file = Metered { file: BufReader::new(File::open(path)?), left: Rc::clone(&left) };
    let archive = ZipArchive::with_config(from_start, file)?;
    left.set(u64::MAX);
    Ok(archive)
}

fn read_at(file: &mut File, offset: u64, longest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(longest).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the offset of the directory, from the last bytes of the archive; `None` if they do not end with a valid end
/// record. The end record of an archive inside a cut-off one is followed by other bytes.
fn directory_offset(tail: &[u8]) -> Option<u64> {
    let ends_file = |at: usize| {
        let comment = u16_at(tail, at + END_SIZE - 2).map(usize::from);
        comment.is_some_and(|comment| at + END_SIZE + comment == tail.len())
    };
    let end = (0..tail.len()).rev().find(|at| tail[*at..].starts_with(END) && ends_file(*at))?;
    let offset = u32_at(tail, end + 16)?;
    if offset != u32::MAX {
        return Some(u64::from(offset));
    }
    let large = rfind(&tail[..end], LARGE_END)?;
    let bytes = tail.get(large + 48..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

fn entries(mut directory: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    while let Some((entry, rest)) = entry(directory) {
        entries.push(entry);
        directory = rest;
    }
    entries
}

fn entry(directory: &[u8]) -> Option<(Entry, &[u8])> {
    if !directory.starts_with(DESCRIPTION) {
        return None;
    }
    let [name, extra, comment] = [28, 30, 32].map(|at| u16_at(directory, at).map(usize::from));
    let (name, extra, comment) = (name?, extra?, comment?);
    let text = directory.get(DESCRIPTION_SIZE..DESCRIPTION_SIZE + name)?;
    let entry = Entry {
        name: String::from_utf8_lossy(text).into_owned(),
        offset: u32_at(directory, 42)?.into(),
        compressed: u16_at(directory, 10)? != 0,
    };
    let length = DESCRIPTION_SIZE + name + extra + comment;
    Some((entry, directory.get(length..)?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes))
}

fn rfind(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).rposition(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(names: &[&str]) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for name in names {
            let offset = bytes.len() as u32;
            bytes.extend_from_slice(ENTRY);
            bytes.resize(bytes.len() + ENTRY_SIZE - 4, 0);
            let at = directory.len();
            directory.extend_from_slice(DESCRIPTION);
            directory.resize(at + DESCRIPTION_SIZE, 0);
            directory[at + 28] = name.len() as u8;
            directory[at + 42..at + 46].copy_from_slice(&offset.to_le_bytes());
            directory.extend_from_slice(name.as_bytes());
        }
        let offset = bytes.len() as u32;
        bytes.append(&mut directory);
        let end = bytes.len();
        bytes.extend_from_slice(END);
        bytes.resize(end + END_SIZE, 0);
        bytes[end + 16..end + 20].copy_from_slice(&offset.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<ZipDirectory> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        ZipDirectory::read(file.path()).unwrap()
    }

    #[test]
    fn archives_are_known_by_their_names() {
        for (names, what) in [
            (["version", "serialized_exported_program.json"].as_slice(), "before torch 2.8"),
            (&["config.json", "model.weights.h5"], "Keras"),
            (&["x/.data/extern_modules", "x/data.pkl"], "torch.package"),
            (&["a.npy", "b.npy"], "NumPy"),
            (&["folder/model.pt", "folder/README"], "holds 'folder/model.pt'"),
        ] {
            let found = read(&archive(names)).unwrap().advice();
            assert!(found.as_ref().is_some_and(|found| found.what.contains(what)), "{what}: {found:?}");
        }
        let program = read(&archive(&["x/models/model.json", "x/archive_format"])).unwrap();
        assert!(program.has_program() && !program.is_compiled());
        let compiled = read(&archive(&["x/data/aotinductor/model/a.so", "x/archive_format"])).unwrap();
        assert!(compiled.is_compiled() && !compiled.has_program());
        let own = read(&archive(&["m/data.pkl", "m/constants.pkl", "m/version"])).unwrap();
        assert_eq!((own.advice(), own.has_constants()), (None, true));
        let saved = read(&archive(&["m/data.pkl", "m/version"])).unwrap();
        assert_eq!((saved.advice(), saved.has_constants()), (None, false));
    }

    #[test]
    fn an_archive_with_too_large_a_directory_is_not_opened() {
        let directory = |entries: usize| {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut zip = zip::ZipWriter::new(file.reopen().unwrap());
            for entry in 0..entries {
                zip.start_file(format!("{entry:0>250}"), zip::write::SimpleFileOptions::default()).unwrap();
            }
            zip.finish().unwrap();
            open_archive(file.path()).map(|zip| zip.len()).map_err(|error| error.to_string())
        };
        assert_eq!(directory(10_000), Ok(10_000));
        let error = directory(20_000).unwrap_err();
        assert!(error.contains("its directory has more than 4194304 bytes"), "{error}");
    }

    #[test]
    fn an_archive_without_its_end_has_no_directory() {
        let whole = archive(&["m/data.pkl"]);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn the_end_of_an_archive_inside_a_cut_off_one_is_not_the_end_of_the_file() {
        let inner = archive(&["inner/data.pkl"]);
        let rest = [0; 100];
        assert_eq!(read(&[inner.as_slice(), &rest].concat()), None);
        let mut commented = archive(&["m/data.pkl"]);
        let comment = commented.len() - 2;
        commented[comment] = 100;
        assert!(read(&[commented.as_slice(), &rest].concat()).is_some());
    }

    proptest::proptest! {
        #[test]
        fn damage_never_panics(at in 0_usize..150, byte in proptest::num::u8::ANY) {
            let mut bytes = archive(&["m/data.pkl", "m/version"]);
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Some(directory) = read(&bytes) {
                let _ = directory.advice();
            }
        }
    }
}
