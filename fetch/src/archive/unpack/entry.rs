//! Checks an archive entry's name and type, and computes the path to write it to.

use std::path::{Component, Path, PathBuf};

/// Type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Directory,
    /// A link, device or socket, which no model needs.
    Other,
}

/// Maximum number of components in an entry's name, many times what models have. Removing a tree of directories keeps
/// one directory open per level.
const MAX_DEPTH: usize = 64;

/// Returns the path of an entry relative to the target. The error is the reason why the entry is not allowed.
pub(super) fn inside(name: &str, kind: EntryKind) -> Result<PathBuf, &'static str> {
    if kind == EntryKind::Other {
        return Err("which is neither a file nor a directory");
    }
    let mut path = PathBuf::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err("which leads out of the directory");
            }
        }
    }
    if path.components().count() > MAX_DEPTH {
        return Err("which lies more than 64 directories deep");
    }
    if path.as_os_str().is_empty() && kind == EntryKind::File {
        return Err("which has no name");
    }
    Ok(path)
}
