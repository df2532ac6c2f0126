//! Directories in which a change may affect where a path leads.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Most links that Linux follows; more are a loop.
const MAX_LINKS: usize = 40;

/// Returns the directories to watch for a path: the directory itself or that of the file, and the directory of every
/// link on the way, because its target may change. They are real paths, so that each directory appears once and a
/// replaced directory is a different one.
pub(super) fn watched_folders(path: &Path) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    // Without a working directory a relative path leads nowhere.
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
            Ok(target) if links < MAX_LINKS => {
                links += 1;
                folders.insert(here.clone());
                let target = pieces(&target);
                rest = target.into_iter().chain(rest).collect();
            }
            Ok(_) => return folders,
            Err(_) => here = next,
        }
    }
    let folder = if here.is_dir() { Some(here.as_path()) } else { here.parent() };
    folders.extend(folder.map(Path::to_owned));
    folders
}

/// Returns the components of a path without `.`. An absolute link target restarts at the root.
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

    /// Creates directories in a temporary one; returns its real path too.
    fn stage(folders: &[&str]) -> (TempDir, PathBuf) {
        let temporary = TempDir::new().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        for folder in folders {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        (temporary, root)
    }

    fn watched(root: &Path, path: &str) -> Vec<String> {
        let found = watched_folders(&root.join(path));
        let below = found.iter().filter_map(|folder| folder.strip_prefix(root).ok());
        below.map(|folder| folder.display().to_string()).collect()
    }

    #[test]
    fn a_file_is_watched_by_its_folder_and_a_folder_by_itself() {
        let (_keep, root) = stage(&["a/b"]);
        fs::write(root.join("a/file.yaml"), "").unwrap();
        assert_eq!(watched(&root, "a/file.yaml"), ["a"]);
        assert_eq!(watched(&root, "a/b"), ["a/b"]);
        assert_eq!(watched(&root, "a/b/../file.yaml"), ["a"]);
        assert_eq!(watched(&root, "a/none.yaml"), ["a"]);
    }

    #[test]
    fn every_link_on_the_way_is_watched_as_in_a_mounted_config_map() {
        let (_keep, root) = stage(&["mount/..2024", "services"]);
        fs::write(root.join("mount/..2024/a.yaml"), "").unwrap();
        symlink("..2024", root.join("mount/..data")).unwrap();
        symlink("..data/a.yaml", root.join("mount/a.yaml")).unwrap();
        symlink("../mount/a.yaml", root.join("services/a.yaml")).unwrap();
        let expected = ["mount", "mount/..2024", "services"];
        assert_eq!(watched(&root, "services/a.yaml"), expected);
        symlink(root.join("mount"), root.join("services/all")).unwrap();
        assert_eq!(watched(&root, "services/all"), ["mount", "services"]);
    }

    #[test]
    fn a_loop_of_links_ends() {
        let (_keep, root) = stage(&["a"]);
        symlink("two", root.join("a/one")).unwrap();
        symlink("one", root.join("a/two")).unwrap();
        assert_eq!(watched(&root, "a/one"), ["a"]);
    }
}
