//! Unpacks untrusted archives. Nothing is written outside the target, links are refused, and sizes are counted as
//! written, not as stated by the archive.

mod entry;
#[cfg(test)]
mod fuzz;
mod layers;
mod metered;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use self::entry::{EntryKind, inside};
pub(crate) use self::layers::unpack_layers;
use self::metered::Metered;
use crate::archive::packing::Packing;
use crate::error::FetchError;
use crate::limits::Limits;

/// Writes entries while the limits allow it.
struct Unpacker<'a> {
    target: &'a Path,
    limits: &'a Limits,
    /// Bytes that may still be written.
    bytes: u64,
    /// Entries that may still be written.
    entries: u64,
}

/// Unpacks an archive into an existing, empty directory.
pub(crate) fn unpack(packing: Packing, archive: &Path, target: &Path, limits: &Limits) -> Result<(), FetchError> {
    let file = File::open(archive).map_err(FetchError::file(archive))?;
    let mut unpacker = Unpacker { target, limits, bytes: limits.unpacked, entries: limits.entries };
    match packing {
        Packing::Zip => unpack_zip(file, &mut unpacker),
        Packing::Tar => unpack_tar(BufReader::new(file), &mut unpacker),
        Packing::TarGz => unpack_tar(MultiGzDecoder::new(BufReader::new(file)), &mut unpacker),
        Packing::Layer(_) | Packing::None => Ok(()),
    }
}

/// Maximum bytes that precede an entry's data in a tar archive: its name, which some formats keep in an entry of its
/// own, and its attributes. The library holds them in memory. No path on Linux is longer than 4 KiB.
const MAX_TAR_HEADER: u64 = 256 * 1024;

/// Maximum bytes of a zip archive's central directory, which the library holds in memory at about ten times its size.
/// The limit leaves room for about forty thousand names of a hundred characters.
const MAX_ZIP_DIRECTORY: u64 = 6 << 20;

fn unpack_zip(file: File, unpacker: &mut Unpacker<'_>) -> Result<(), FetchError> {
    let broken = |error: zip::result::ZipError| FetchError::Archive(io::Error::other(error));
    let (file, allowance) = Metered::new(file, MAX_ZIP_DIRECTORY);
    // A search for the archive's beginning could mistake the zip64 records of some writers, such as torch, for a shift
    // of the directory. That depends on the lengths of the names.
    let from_start = zip::read::Config { archive_offset: zip::read::ArchiveOffset::Known(0) };
    let mut archive = zip::ZipArchive::with_config(from_start, BufReader::new(file)).map_err(|error| {
        if allowance.is_exhausted() { too_large("directory of the archive", MAX_ZIP_DIRECTORY) } else { broken(error) }
    })?;
    allowance.lift();
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).map_err(broken)?;
        let name = entry.name().map_err(broken)?.into_owned();
        let kind = if entry.is_symlink() {
            EntryKind::Other
        } else if entry.is_dir() {
            EntryKind::Directory
        } else {
            EntryKind::File
        };
        unpacker.write(&name, kind, &mut entry)?;
    }
    Ok(())
}

fn unpack_tar(stream: impl Read, unpacker: &mut Unpacker<'_>) -> Result<(), FetchError> {
    let (stream, allowance) = Metered::new(stream, MAX_TAR_HEADER);
    let mut archive = tar::Archive::new(stream);
    for entry in archive.entries().map_err(FetchError::Archive)? {
        let mut entry = entry.map_err(|error| {
            if allowance.is_exhausted() {
                too_large("name or the attributes of a file in the archive", MAX_TAR_HEADER)
            } else {
                FetchError::Archive(error)
            }
        })?;
        allowance.lift();
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = match entry.header().entry_type() {
            tar::EntryType::Regular | tar::EntryType::Continuous => EntryKind::File,
            tar::EntryType::Directory => EntryKind::Directory,
            // Metadata of the next entry, which the library has already applied.
            tar::EntryType::XGlobalHeader | tar::EntryType::XHeader => {
                unpacker.count()?;
                allowance.set(MAX_TAR_HEADER);
                continue;
            }
            _ => EntryKind::Other,
        };
        unpacker.write(&name, kind, &mut entry)?;
        allowance.set(MAX_TAR_HEADER);
    }
    Ok(())
}

impl Unpacker<'_> {
    fn write(&mut self, name: &str, kind: EntryKind, data: &mut dyn Read) -> Result<(), FetchError> {
        let place = inside(name, kind).map_err(|reason| FetchError::Unsafe { entry: name.to_owned(), reason })?;
        self.count()?;
        if let Some(folder) = place.parent() {
            self.make_folders(folder)?;
        }
        let path = self.target.join(place);
        match kind {
            EntryKind::Directory => fs::create_dir_all(&path).map_err(FetchError::file(&path)),
            EntryKind::File => self.write_file(&path, data),
            EntryKind::Other => Ok(()),
        }
    }

    fn count(&mut self) -> Result<(), FetchError> {
        let too_many = || too_large("number of files in the archive", self.limits.entries);
        self.entries = self.entries.checked_sub(1).ok_or_else(too_many)?;
        Ok(())
    }

    /// Creates the directories that a name implies. Each of them counts as an entry, because one name may imply dozens.
    fn make_folders(&mut self, place: &Path) -> Result<(), FetchError> {
        let upwards = place.ancestors().map(|folder| self.target.join(folder));
        let missing: Vec<_> = upwards.take_while(|path| !path.is_dir()).collect();
        for path in missing.iter().rev() {
            self.count()?;
            fs::create_dir(path).map_err(FetchError::file(path))?;
        }
        Ok(())
    }

    fn write_file(&mut self, path: &Path, data: &mut dyn Read) -> Result<(), FetchError> {
        let mut file = File::create_new(path).map_err(FetchError::file(path))?;
        // One byte beyond the limit shows that the limit is exceeded.
        let mut bounded = data.take(self.bytes.saturating_add(1));
        let written = io::copy(&mut bounded, &mut file).map_err(FetchError::Archive)?;
        let too_much = || too_large("size of the unpacked archive", self.limits.unpacked);
        self.bytes = self.bytes.checked_sub(written).ok_or_else(too_much)?;
        Ok(())
    }
}

fn too_large(what: &str, limit: u64) -> FetchError {
    FetchError::TooLarge { what: format!("the {what}"), limit }
}
