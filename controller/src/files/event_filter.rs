//! Filter for the events of the watched directories that may change the declaration.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use notify::Event;

use super::watched_folders::watched_folders;

/// Directories in which every change counts, by their real paths. In the directories above them only the path
/// components that lead to them count, because replacing a component replaces everything below it.
#[derive(Debug, Default)]
pub(super) struct EventFilter {
    folders: BTreeSet<PathBuf>,
}

impl EventFilter {
    /// Returns the filter for the directories that these paths lead to now.
    pub(super) fn of(paths: &[PathBuf]) -> Self {
        let folders = paths.iter().flat_map(|path| watched_folders(path));
        Self { folders: folders.collect() }
    }

    /// Returns every directory to watch: the ones in which every change counts, and their ancestors up to the root.
    pub(super) fn watched(&self) -> BTreeSet<PathBuf> {
        let all = self.folders.iter().flat_map(|folder| folder.ancestors());
        all.map(Path::to_owned).collect()
    }

    /// Returns true if the files must be read again after the event. The check is cheap, because other programs may
    /// write many files next to the watched directories, such as in `/tmp`.
    pub(super) fn lets_through(&self, event: &Event) -> bool {
        // Access events are ignored: Weir's own reads cause them. An event without a path means that other events were
        // lost.
        let is_change = !event.kind.is_access();
        is_change && (event.paths.is_empty() || event.paths.iter().any(|path| self.counts(path)))
    }

    fn counts(&self, path: &Path) -> bool {
        let is_within = path.parent().is_some_and(|parent| self.folders.contains(parent));
        is_within || self.is_on_the_way(path)
    }

    /// Returns true for a watched directory and its ancestors. Paths are ordered by their components, so a descendant
    /// directly follows its ancestor.
    fn is_on_the_way(&self, path: &Path) -> bool {
        let from: (Bound<&Path>, Bound<&Path>) = (Bound::Included(path), Bound::Unbounded);
        let mut following = self.folders.range::<Path, _>(from);
        following.next().is_some_and(|folder| folder.starts_with(path))
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, CreateKind, EventKind};

    use super::*;

    fn filter(folders: &[&str]) -> EventFilter {
        EventFilter { folders: folders.iter().map(PathBuf::from).collect() }
    }

    fn created(path: &str) -> Event {
        Event::new(EventKind::Create(CreateKind::Any)).add_path(path.into())
    }

    #[test]
    fn every_directory_up_to_the_root_is_watched() {
        let watched = filter(&["/a/b", "/a/c"]).watched();
        let watched: Vec<_> = watched.iter().map(|path| path.display().to_string()).collect();
        assert_eq!(watched, ["/", "/a", "/a/b", "/a/c"]);
    }

    #[test]
    fn changes_in_a_directory_and_to_the_path_that_leads_to_it_count() {
        let filter = filter(&["/a/b", "/a/b-c/d"]);
        for path in ["/a/b/x.yaml", "/a/b", "/a", "/a/b-c", "/a/b-c/d/x"] {
            assert!(filter.lets_through(&created(path)), "{path}");
        }
        for path in ["/x", "/a/x", "/a/b/x/y", "/a/b-c/x", "/a/b-"] {
            assert!(!filter.lets_through(&created(path)), "{path}");
        }
    }

    #[test]
    fn lost_events_count_and_reads_do_not() {
        let filter = filter(&["/a"]);
        assert!(filter.lets_through(&Event::new(EventKind::Other)));
        let read = Event::new(EventKind::Access(AccessKind::Any)).add_path("/a/x".into());
        assert!(!filter.lets_through(&read));
    }
}
