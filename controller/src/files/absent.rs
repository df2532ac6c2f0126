//! Objects that were declared before and are in no file now. They are deleted only if they are surely meant to be gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_crds::{Broken, Manifest, Object};

use super::collect::Origins;
use super::manifest_file::ManifestFile;
use super::object_key::ObjectKey;

/// Time without a change of any file after which missing objects are deleted. Within it a program may write the rest of
/// a file, or an editor the file to which an object moves.
pub(super) const DELETION_DELAY: Duration = Duration::from_secs(2);

/// An object that no file declares, with the folder of its last file.
#[derive(Clone, Debug)]
pub(super) struct AbsentObject {
    pub(super) folder: PathBuf,
    pub(super) manifest: Manifest,
}

/// Decision about an absent object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// The object is kept for now, because the files are changing and may declare it in a moment.
    Unsettled,
    /// The object is kept, because the errors in this file may hide it.
    Hidden(PathBuf),
    /// The object is deleted.
    Final,
}

/// Returns the objects that were declared by the files and objects of before, and are in none of the files now.
pub(super) fn absent_objects(
    files: &BTreeMap<PathBuf, ManifestFile>,
    before: &BTreeMap<PathBuf, ManifestFile>,
    kept: Vec<AbsentObject>,
    origins: &Origins,
) -> Vec<AbsentObject> {
    let declared = files.values().flat_map(|file| &file.manifests);
    let declared: BTreeSet<_> = declared.map(|manifest| ObjectKey::of(&manifest.object)).collect();
    let of_files = before.values().flat_map(|file| file.manifests.iter().map(|manifest| (&file.folder, manifest)));
    let of_files =
        of_files.map(|(folder, manifest)| AbsentObject { folder: folder.clone(), manifest: manifest.clone() });
    let is_absent = |object: &AbsentObject| {
        let (key, file) = (ObjectKey::of(&object.manifest.object), object.manifest.spans.file());
        // Only one of several declarations counted. Weir uses no object of other kinds.
        let counted = origins.get(&key).is_some_and(|origin| origin == file);
        counted && !declared.contains(&key) && !matches!(object.manifest.object, Object::Other { .. })
    };
    of_files.chain(kept).filter(is_absent).collect()
}

/// Decides what becomes of an absent object. `unread` are the files of which nothing could be read; `unchanged` is the
/// time since the last change of any file.
pub(super) fn absence(
    key: &ObjectKey,
    files: &BTreeMap<PathBuf, ManifestFile>,
    unread: &BTreeSet<PathBuf>,
    unchanged: Duration,
) -> Absence {
    if unchanged < DELETION_DELAY {
        return Absence::Unsettled;
    }
    let hides = |broken: &Broken| match broken {
        Broken::Named(name) => name == key.name(),
        Broken::Unnamed => true,
    };
    let mut broken = files.iter().filter(|(_, file)| file.broken.iter().any(hides));
    let file = unread.first().or(broken.next().map(|(path, _)| path));
    file.map_or(Absence::Final, |file| Absence::Hidden(file.clone()))
}

/// Returns the problem of an object that the errors in a file may hide.
pub(super) fn hidden(key: &ObjectKey, file: &Path) -> String {
    format!(
        "{}: the {key} is in no file any more; it is kept, because the errors in this file may hide it",
        file.display()
    )
}
