//! Decides what an entry of a layer does to the tree below `/models`.

use std::path::{Component, Path, PathBuf};

/// Type of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LayerEntryKind {
    File,
    Directory,
    /// A symbolic link with this text.
    Symlink(String),
    /// Another name of this file.
    Hardlink(String),
    /// Attributes of other entries, which the library has already applied.
    Metadata,
    /// A device, pipe or socket, which no model needs.
    Other,
}

/// Effect of an entry. The paths are relative to `/models`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The entry is outside of `/models`, below this name at the root.
    Skip(Option<String>),
    Directory(PathBuf),
    File(PathBuf),
    /// A symbolic link of a layer.
    Symlink {
        place: PathBuf,
        /// Text of the link, relative to its directory.
        to: PathBuf,
    },
    /// Another name of the file at `to`.
    Hardlink {
        place: PathBuf,
        to: PathBuf,
    },
    /// The earlier layers' file or directory is removed.
    Remove(PathBuf),
    /// The content of the earlier layers' directory is removed.
    Clear(PathBuf),
}

/// Directory of the model in the image.
const MODELS: &str = "models";

/// Prefix of the name of an entry that removes the file with the rest of the name.
const WHITEOUT: &str = ".wh.";

/// Name of an entry that removes the content of its directory.
const OPAQUE: &str = ".wh..wh..opq";

/// Prefix of other entries of the file system that invented whiteouts.
const AUFS: &str = ".wh..wh.";

/// Maximum number of components in an entry's name, as in other archives.
const MAX_DEPTH: usize = 64;

/// Returns the effect of an entry. The error is the reason why the entry is not allowed.
pub(super) fn action(name: &str, kind: &LayerEntryKind) -> Result<Action, &'static str> {
    if *kind == LayerEntryKind::Metadata {
        return Ok(Action::Skip(None));
    }
    let parts = parts(name)?;
    let file_name = parts.last().copied().unwrap_or_default();
    if file_name.starts_with(WHITEOUT) {
        return whiteout(&parts, file_name);
    }
    let Some(place) = in_models(&parts) else {
        return Ok(Action::Skip(parts.first().map(|part| (*part).to_owned())));
    };
    if place.as_os_str().is_empty() && *kind != LayerEntryKind::Directory {
        return Err("which is not a directory, but has to hold the model");
    }
    match kind {
        LayerEntryKind::File => Ok(Action::File(place)),
        LayerEntryKind::Directory => Ok(Action::Directory(place)),
        LayerEntryKind::Symlink(to) => Ok(Action::Symlink { to: link(&place, to)?, place }),
        LayerEntryKind::Hardlink(to) => {
            let to = self::parts(to).ok().and_then(|parts| in_models(&parts));
            let to = to.ok_or("which is a link to a file outside of /models")?;
            Ok(Action::Hardlink { place, to })
        }
        LayerEntryKind::Metadata | LayerEntryKind::Other => Err("which is neither a file, a directory nor a link"),
    }
}

/// Splits a name into its parts below the root of the image.
fn parts(name: &str) -> Result<Vec<&str>, &'static str> {
    let mut parts = Vec::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str().unwrap_or_default()),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err("which leads out of the directory"),
        }
    }
    if parts.len() > MAX_DEPTH {
        return Err("which lies more than 64 directories deep");
    }
    Ok(parts)
}

/// Returns the path relative to `/models`; `None` outside of it.
fn in_models(parts: &[&str]) -> Option<PathBuf> {
    let (first, rest) = parts.split_first()?;
    (*first == MODELS).then(|| rest.iter().collect())
}

fn whiteout(parts: &[&str], file_name: &str) -> Result<Action, &'static str> {
    let folder = &parts[..parts.len() - 1];
    if file_name == OPAQUE {
        let is_root = folder.is_empty();
        let place = if is_root { Some(PathBuf::new()) } else { in_models(folder) };
        return Ok(place.map_or(Action::Skip(None), Action::Clear));
    }
    let removed = file_name.strip_prefix(WHITEOUT).unwrap_or_default();
    if file_name.starts_with(AUFS) {
        return Ok(Action::Skip(None));
    }
    if matches!(removed, "" | "." | "..") {
        return Err("which removes no file of its directory");
    }
    let parts: Vec<_> = folder.iter().copied().chain([removed]).collect();
    Ok(match in_models(&parts) {
        None => Action::Skip(None),
        Some(place) if place.as_os_str().is_empty() => Action::Clear(place),
        Some(place) => Action::Remove(place),
    })
}

/// Returns the text of a symbolic link, relative to its directory. The image's `/models` is not `/models` on this
/// machine.
fn link(place: &Path, to: &str) -> Result<PathBuf, &'static str> {
    const LEAVES: &str = "which is a link that leaves /models";
    let folder = place.parent().unwrap_or(Path::new(""));
    let to = Path::new(to);
    // Target of the link if no part of the path is a link; the complete tree is checked again.
    let mut reached: Vec<_> = if to.is_absolute() { Vec::new() } else { folder.iter().collect() };
    let (mut is_below_root, mut climbed) = (!to.is_absolute(), false);
    for part in to.components() {
        match part {
            Component::Normal(part) if !is_below_root => {
                (is_below_root, climbed) = (part == MODELS, true);
                if !is_below_root {
                    return Err(LEAVES);
                }
            }
            Component::Normal(part) => reached.push(part),
            Component::ParentDir => _ = reached.pop().ok_or(LEAVES)?,
            Component::CurDir | Component::RootDir => {}
            Component::Prefix(_) => return Err(LEAVES),
        }
    }
    if to.as_os_str().is_empty() || (to.is_absolute() && !climbed) {
        return Err(LEAVES);
    }
    if !to.is_absolute() {
        return Ok(to.to_owned());
    }
    let up = folder.iter().map(|_| "..".as_ref());
    let relative: PathBuf = up.chain(reached).collect();
    Ok(if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, kind: &LayerEntryKind) -> Result<Action, &'static str> {
        action(name, kind)
    }

    fn symlink(name: &str, to: &str) -> Result<String, &'static str> {
        match action(name, &LayerEntryKind::Symlink(to.to_owned()))? {
            Action::Symlink { to, .. } => Ok(to.display().to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn entries_below_models_are_taken() {
        for name in ["models/a/b", "./models/a/b", "/models/a/b", "models//a/./b"] {
            assert_eq!(of(name, &LayerEntryKind::File), Ok(Action::File("a/b".into())), "{name}");
        }
        assert_eq!(of("models/", &LayerEntryKind::Directory), Ok(Action::Directory("".into())));
        for (name, root) in [("etc/passwd", "etc"), ("modelsx/a", "modelsx"), ("bin", "bin")] {
            assert_eq!(of(name, &LayerEntryKind::File), Ok(Action::Skip(Some(root.to_owned()))), "{name}");
            assert_eq!(of(name, &LayerEntryKind::Other), Ok(Action::Skip(Some(root.to_owned()))), "{name}");
        }
        assert_eq!(of("models/a", &LayerEntryKind::Metadata), Ok(Action::Skip(None)));
        assert_eq!(of("models/../etc/x", &LayerEntryKind::File), Err("which leads out of the directory"));
        assert_eq!(of("models/null", &LayerEntryKind::Other), Err("which is neither a file, a directory nor a link"));
        let not_a_directory = Err("which is not a directory, but has to hold the model");
        assert_eq!(of("models", &LayerEntryKind::File), not_a_directory);
        assert_eq!(of("models", &LayerEntryKind::Symlink("data".to_owned())), not_a_directory);
        let deep = format!("models/{}", "a/".repeat(64));
        assert_eq!(of(&deep, &LayerEntryKind::File), Err("which lies more than 64 directories deep"));
    }

    #[test]
    fn whiteouts_remove() {
        for (name, expected) in [
            ("models/a/.wh.b", Action::Remove("a/b".into())),
            (".wh.models", Action::Clear("".into())),
            (".wh..wh..opq", Action::Clear("".into())),
            ("models/.wh..wh..opq", Action::Clear("".into())),
            ("models/a/.wh..wh..opq", Action::Clear("a".into())),
            ("etc/.wh.b", Action::Skip(None)),
            ("etc/.wh..wh..opq", Action::Skip(None)),
            ("models/.wh..wh.plnk", Action::Skip(None)),
        ] {
            assert_eq!(of(name, &LayerEntryKind::File), Ok(expected), "{name}");
        }
        for name in ["models/a/.wh.", "models/a/.wh..", "models/a/.wh..."] {
            assert_eq!(of(name, &LayerEntryKind::File), Err("which removes no file of its directory"), "{name}");
        }
    }

    #[test]
    fn links_stay_in_models() {
        for (name, to, expected) in [
            ("models/a", "b", "b"),
            ("models/a/b", "../c", "../c"),
            ("models/a/b", "/models/c/d", "../c/d"),
            ("models/a", "/models/c", "c"),
            ("models/a/b", "/models", ".."),
            ("models/a", "/models/", "."),
        ] {
            assert_eq!(symlink(name, to), Ok(expected.to_owned()), "{name} {to}");
        }
        for (name, to) in [
            ("models/a", ".."),
            ("models/a", "../etc/passwd"),
            ("models/a/b", "../../x"),
            ("models/a", "/etc/passwd"),
            ("models/a", "/"),
            ("models/a", "/models/../etc"),
            ("models/a", "/../models/x/../.."),
            ("models/a", ""),
        ] {
            assert_eq!(symlink(name, to), Err("which is a link that leaves /models"), "{name} {to}");
        }
        let hard = |to: &str| of("models/a", &LayerEntryKind::Hardlink(to.to_owned()));
        assert_eq!(hard("models/b"), Ok(Action::Hardlink { place: "a".into(), to: "b".into() }));
        assert_eq!(hard("/models/b"), Ok(Action::Hardlink { place: "a".into(), to: "b".into() }));
        for to in ["etc/passwd", "../etc/passwd", "/etc/passwd", ""] {
            assert_eq!(hard(to), Err("which is a link to a file outside of /models"), "{to}");
        }
    }
}
