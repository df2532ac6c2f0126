//! Unpacking of untrusted archives: nothing is written outside the target, links are refused, and sizes are
//! counted as written, not as the archive states them.

mod entry;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use self::entry::{Kind, inside};
use crate::error::FetchError;
use crate::limits::Limits;
use crate::source::Packing;

/// Writes entries as long as the limits allow.
struct Unpacker<'a> {
    target: &'a Path,
    limits: &'a Limits,
    /// Bytes that may still be written.
    bytes: u64,
    /// Entries that may still be written.
    entries: u64,
}

/// Unpacks an archive into an existing, empty directory.
pub(crate) fn unpack(
    packing: Packing,
    archive: &Path,
    target: &Path,
    limits: &Limits,
) -> Result<(), FetchError> {
    let file = File::open(archive).map_err(FetchError::file(archive))?;
    let mut unpacker = Unpacker {
        target,
        limits,
        bytes: limits.unpacked,
        entries: limits.entries,
    };
    match packing {
        Packing::Zip => unpack_zip(file, &mut unpacker),
        Packing::Tar => unpack_tar(BufReader::new(file), &mut unpacker),
        Packing::TarGz => unpack_tar(MultiGzDecoder::new(BufReader::new(file)), &mut unpacker),
        Packing::None => Ok(()),
    }
}

fn unpack_zip(file: File, unpacker: &mut Unpacker<'_>) -> Result<(), FetchError> {
    let broken = |error: zip::result::ZipError| FetchError::Archive(io::Error::other(error));
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(broken)?;
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).map_err(broken)?;
        let name = entry.name().map_err(broken)?.into_owned();
        let kind = if entry.is_symlink() {
            Kind::Other
        } else if entry.is_dir() {
            Kind::Directory
        } else {
            Kind::File
        };
        unpacker.write(&name, kind, &mut entry)?;
    }
    Ok(())
}

fn unpack_tar(stream: impl Read, unpacker: &mut Unpacker<'_>) -> Result<(), FetchError> {
    let mut archive = tar::Archive::new(stream);
    for entry in archive.entries().map_err(FetchError::Archive)? {
        let mut entry = entry.map_err(FetchError::Archive)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = match entry.header().entry_type() {
            tar::EntryType::Regular | tar::EntryType::Continuous => Kind::File,
            tar::EntryType::Directory => Kind::Directory,
            // Metadata of the next entry, which the library has applied already.
            tar::EntryType::XGlobalHeader | tar::EntryType::XHeader => continue,
            _ => Kind::Other,
        };
        unpacker.write(&name, kind, &mut entry)?;
    }
    Ok(())
}

impl Unpacker<'_> {
    fn write(&mut self, name: &str, kind: Kind, data: &mut dyn Read) -> Result<(), FetchError> {
        let place = inside(name, kind).map_err(|reason| FetchError::Unsafe {
            entry: name.to_owned(),
            reason,
        })?;
        let too_many = || too_large("number of files in the archive", self.limits.entries);
        self.entries = self.entries.checked_sub(1).ok_or_else(too_many)?;
        let path = self.target.join(place);
        match kind {
            Kind::Directory => fs::create_dir_all(&path).map_err(FetchError::file(&path)),
            Kind::File => self.write_file(&path, data),
            Kind::Other => Ok(()),
        }
    }

    fn write_file(&mut self, path: &Path, data: &mut dyn Read) -> Result<(), FetchError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(FetchError::file(folder))?;
        }
        let mut file = File::create_new(path).map_err(FetchError::file(path))?;
        // One byte beyond the limit shows that it is exceeded.
        let mut bounded = data.take(self.bytes.saturating_add(1));
        let written = io::copy(&mut bounded, &mut file).map_err(FetchError::Archive)?;
        let too_much = || too_large("size of the unpacked archive", self.limits.unpacked);
        self.bytes = self.bytes.checked_sub(written).ok_or_else(too_much)?;
        Ok(())
    }
}

fn too_large(what: &str, limit: u64) -> FetchError {
    FetchError::TooLarge {
        what: format!("the {what}"),
        limit,
    }
}
