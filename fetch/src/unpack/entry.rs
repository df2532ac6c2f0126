//! Where an entry of an archive may be written.

use std::path::{Component, Path, PathBuf};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    /// A link, a device, a socket: no model needs one.
    Other,
}

/// The path below the target, or why there is none.
pub(super) fn inside(name: &str, kind: Kind) -> Result<PathBuf, &'static str> {
    if kind == Kind::Other {
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
    match path.as_os_str().is_empty() && kind == Kind::File {
        true => Err("which has no name"),
        false => Ok(path),
    }
}
