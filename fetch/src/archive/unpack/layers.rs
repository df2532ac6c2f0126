//! Unpacks the layers of an image: the directory `/models` of their union, in which KServe's modelcars have the model.
//!
//! Later layers replace and remove files of earlier ones (whiteouts). Files outside of `/models` are
//! skipped. Links stay if they lead to a place inside `/models`; nothing is ever written through a link.

mod entry;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use self::entry::{Action, LayerEntryKind, action};
use self::tree::Tree;
use super::metered::Metered;
use super::{MAX_TAR_HEADER, too_large};
use crate::archive::packing::Compression;
use crate::error::FetchError;
use crate::limits::Limits;

/// Number of directories that the error about an image without `/models` names.
const NAMED: usize = 10;

/// The union of the layers that were unpacked.
struct Union<'a> {
    tree: Tree<'a>,
    limits: &'a Limits,
    /// Unpacked bytes that may still be read, including those of skipped files.
    bytes: u64,
    /// Names at the root of the image, for the error about an image without `/models`.
    roots: BTreeSet<String>,
}

/// Unpacks layers, lowest first, into an existing, empty directory.
pub(crate) fn unpack_layers(
    layers: &[(PathBuf, Compression)],
    target: &Path,
    limits: &Limits,
) -> Result<(), FetchError> {
    let mut union = Union { tree: Tree::new(target, limits), limits, bytes: limits.unpacked, roots: BTreeSet::new() };
    for (path, compression) in layers {
        let file = BufReader::new(File::open(path).map_err(FetchError::file(path))?);
        match compression {
            Compression::None => union.apply(file)?,
            Compression::Gzip => union.apply(MultiGzDecoder::new(file))?,
        }
    }
    if union.tree.is_empty()? {
        let roots: Vec<_> = union.roots.into_iter().take(NAMED).collect();
        return Err(FetchError::NoModels { found: roots.join(", ") });
    }
    union.tree.check_links()
}

impl Union<'_> {
    fn apply(&mut self, layer: impl Read) -> Result<(), FetchError> {
        self.tree.begin_layer();
        let (stream, size) = Metered::new(layer, self.bytes);
        let (stream, header) = Metered::new(stream, MAX_TAR_HEADER);
        let broken = |error: io::Error| {
            if size.is_exhausted() {
                too_large("size of the unpacked image", self.limits.unpacked)
            } else if header.is_exhausted() {
                too_large("name or the attributes of a file in the image", MAX_TAR_HEADER)
            } else {
                FetchError::Archive(error)
            }
        };
        let mut archive = tar::Archive::new(stream);
        for entry in archive.entries().map_err(broken)? {
            let mut entry = entry.map_err(broken)?;
            header.lift();
            apply_entry(&mut self.tree, &mut self.roots, &mut entry)?;
            // The rest of a skipped file does not count as the header of the next one.
            io::copy(&mut entry, &mut io::sink()).map_err(broken)?;
            header.set(MAX_TAR_HEADER);
        }
        self.bytes = size.left();
        Ok(())
    }
}

fn apply_entry(
    tree: &mut Tree<'_>,
    roots: &mut BTreeSet<String>,
    entry: &mut tar::Entry<'_, impl Read>,
) -> Result<(), FetchError> {
    let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    let kind = kind(entry);
    let unsafe_entry = |reason| FetchError::Unsafe { entry: name.clone(), reason };
    if entry.header().entry_type().is_gnu_sparse() {
        // The library would fill the holes, up to the size that the entry states, although no byte of them is read.
        return Err(unsafe_entry("which is a sparse file"));
    }
    match action(&name, &kind).map_err(unsafe_entry)? {
        Action::Skip(root) => {
            if roots.len() <= NAMED {
                roots.extend(root);
            }
            Ok(())
        }
        Action::Directory(place) => tree.make_directory(&place, &name),
        Action::File(place) => tree.write_file(&place, &name, entry),
        Action::Symlink { place, to } => tree.link(&place, &name, &to),
        Action::Hardlink { place, to } => tree.link_hard(&place, &name, &to),
        Action::Remove(place) => tree.remove(&place, &name),
        Action::Clear(place) => tree.clear(&place, &name),
    }
}

fn kind(entry: &tar::Entry<'_, impl Read>) -> LayerEntryKind {
    let link = || entry.link_name_bytes().map(|to| String::from_utf8_lossy(&to).into_owned()).unwrap_or_default();
    match entry.header().entry_type() {
        tar::EntryType::Regular | tar::EntryType::Continuous => LayerEntryKind::File,
        tar::EntryType::Directory => LayerEntryKind::Directory,
        tar::EntryType::Symlink => LayerEntryKind::Symlink(link()),
        tar::EntryType::Link => LayerEntryKind::Hardlink(link()),
        tar::EntryType::XGlobalHeader | tar::EntryType::XHeader => LayerEntryKind::Metadata,
        _ => LayerEntryKind::Other,
    }
}
