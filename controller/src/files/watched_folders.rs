//! The folders in which a change may be one of what a path leads to.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// As many links one after the other as Linux follows; more are a circle.
const LINKS: usize = 40;

/// Those of a path: the folder itself or the file's folder, and that of every link on the way, which may come
/// to lead elsewhere. Each by its real name, so that two that are the same folder are one, and a folder that
/// takes another's position is another.
pub(super) fn watched_folders(path: &Path) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    // Without a working directory there is nothing behind a relative path.
    let Ok(path) = std::path::absolute(path) else {
        return folders;
    };
    let mut rest: VecDeque<PathBuf> = pieces(&path);
    let mut here = PathBuf::new();
    let mut links = 0;
    while let Some(piece) = rest.pop_front() {
        if piece == Path::new("..") {
            here.pop();
            continue;
        }
        let next = here.join(&piece);
        match fs::read_link(&next) {
            Ok(target) if links < LINKS => {
                links += 1;
                folders.insert(here.clone());
                let target = pieces(&target);
                rest = target.into_iter().chain(rest).collect();
            }
            Ok(_) => return folders,
            Err(_) => here = next,
        }
    }
    let folder = match here.is_dir() {
        true => Some(here.as_path()),
        false => here.parent(),
    };
    folders.extend(folder.map(Path::to_owned));
    folders
}

/// An absolute target begins at the root again, because joining it does.
fn pieces(path: &Path) -> VecDeque<PathBuf> {
    let all = path.components();
    let all = all.filter(|piece| *piece != Component::CurDir);
    all.map(|piece| PathBuf::from(piece.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// Folders of a fresh one, by its real name.
    fn stage(folders: &[&str]) -> (TempDir, PathBuf) {
        let temporary = TempDir::new().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        for folder in folders {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        (temporary, root)
    }

    fn reached(root: &Path, path: &str) -> Vec<String> {
        let found = watched_folders(&root.join(path));
        let below = found
            .iter()
            .filter_map(|folder| folder.strip_prefix(root).ok());
        below.map(|folder| folder.display().to_string()).collect()
    }

    #[test]
    fn a_file_is_in_its_folder_and_a_folder_is_itself() {
        let (_keep, root) = stage(&["a/b"]);
        fs::write(root.join("a/file.yaml"), "").unwrap();
        assert_eq!(reached(&root, "a/file.yaml"), ["a"]);
        assert_eq!(reached(&root, "a/b"), ["a/b"]);
        assert_eq!(reached(&root, "a/b/../file.yaml"), ["a"]);
        assert_eq!(reached(&root, "a/none.yaml"), ["a"]);
    }

    #[test]
    fn every_link_on_the_way_counts_as_in_a_mounted_config_map() {
        let (_keep, root) = stage(&["mount/..2024", "services"]);
        fs::write(root.join("mount/..2024/a.yaml"), "").unwrap();
        symlink("..2024", root.join("mount/..data")).unwrap();
        symlink("..data/a.yaml", root.join("mount/a.yaml")).unwrap();
        symlink("../mount/a.yaml", root.join("services/a.yaml")).unwrap();
        let expected = ["mount", "mount/..2024", "services"];
        assert_eq!(reached(&root, "services/a.yaml"), expected);
        symlink(root.join("mount"), root.join("services/all")).unwrap();
        assert_eq!(reached(&root, "services/all"), ["mount", "services"]);
    }

    #[test]
    fn links_in_a_circle_end() {
        let (_keep, root) = stage(&["a"]);
        symlink("two", root.join("a/one")).unwrap();
        symlink("one", root.join("a/two")).unwrap();
        assert_eq!(reached(&root, "a/one"), ["a"]);
    }
}
