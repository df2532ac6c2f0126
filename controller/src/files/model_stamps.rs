//! States of local model files, so that a file that is overwritten in place is noticed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use weir_cluster::Identity;
use weir_crds::InferenceService;
use weir_crds::inference_service::Predictor;

use crate::manifest::service::ModelStamps;
use crate::manifest::validate::uri_of_variable;

/// Time between two scans of the files. A change counts once two consecutive scans see the same state, so that files
/// are not loaded while they are being copied.
const PERIOD: Duration = Duration::from_secs(2);

/// Depth of a directory at which model files lie: MODEL/VERSION/FILE.
const DEPTH: u32 = 3;

/// Most entries scanned per model: more than a model has, and scanned within milliseconds.
const MAX_ENTRIES: usize = 10_000;

/// Paths of model files with their states.
#[derive(Debug, Default)]
pub(super) struct StampedModels(BTreeMap<PathBuf, Stamps>);

/// States of the files at one path.
#[derive(Debug)]
struct Stamps {
    /// State that is in effect.
    current: String,
    /// Different state that the last scan has seen, which takes effect if the next scan sees it too; None if the last
    /// scan saw the current state.
    next: Option<String>,
}

impl StampedModels {
    /// Returns the states of a service's model files; unknown files are scanned now. Claims are folders below `claims`.
    pub(super) fn of(&mut self, object: &InferenceService, claims: &Path) -> ModelStamps {
        let uris = uris(object).into_iter();
        let stamps = uris.filter_map(|uri| {
            let path = path(&uri, claims)?;
            let current = match self.0.get(&path) {
                Some(known) => known.current.clone(),
                None => stamp(&path)?,
            };
            let new = Stamps { current: current.clone(), next: None };
            self.0.entry(path).or_insert(new);
            Some((uri, current))
        });
        stamps.collect()
    }

    /// Applies the result of a scan of all paths; returns true if a state has changed.
    fn update(&mut self, found: BTreeMap<PathBuf, String>) -> bool {
        let mut is_changed = false;
        for (path, found) in found {
            let Some(stamps) = self.0.get_mut(&path) else {
                continue;
            };
            if stamps.next.as_ref() == Some(&found) {
                tracing::info!(path = %path.display(), "the model files have changed: a new revision loads them");
                (stamps.current, stamps.next) = (found, None);
                is_changed = true;
            } else {
                stamps.next = Some(found).filter(|found| *found != stamps.current);
            }
        }
        is_changed
    }
}

/// Scans the files repeatedly, and notifies of changes.
pub(super) async fn follow(models: Arc<Mutex<StampedModels>>, changed: Arc<Notify>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let paths: Vec<_> = models.lock().0.keys().cloned().collect();
        let looking = tokio::task::spawn_blocking(|| {
            // Missing files are probably being replaced.
            let found = paths.into_iter().filter_map(|path| Some((path.clone(), stamp(&path)?)));
            found.collect()
        });
        let Ok(found) = looking.await else {
            return;
        };
        if models.lock().update(found) {
            changed.notify_one();
        }
    }
}

/// Returns the storage URIs of a service's predictors.
fn uris(object: &InferenceService) -> BTreeSet<String> {
    let canaries = object.spec.canary.iter().map(|canary| &canary.predictor);
    let predictors = std::iter::once(&object.spec.predictor).chain(canaries);
    predictors.flat_map(uris_of).map(str::to_owned).collect()
}

fn uris_of(predictor: &Predictor) -> impl Iterator<Item = &str> {
    let models = predictor.frameworks();
    let models = models.filter_map(|(_, model)| model.storage_uri.as_deref());
    let listed = predictor.storage_uris.iter().map(|listed| &*listed.uri);
    models.chain(listed).chain(uri_of_variable(predictor))
}

/// Returns the path of local files; None for remote files, and for a URI that validation refuses.
fn path(uri: &str, claims: &Path) -> Option<PathBuf> {
    let (scheme, rest) = uri.split_once("://")?;
    match scheme {
        "file" => Some(PathBuf::from(rest)).filter(|path| path.is_absolute()),
        "pvc" => {
            let rest = Path::new(rest);
            let mut parts = rest.components();
            let is_within = parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            is_within.then(|| claims.join(rest))
        }
        _ => None,
    }
}

/// Returns the state of the files at a path: a hash of their names, sizes and times. None if nothing can be read. Files
/// that a model server writes into a directory do not count.
fn stamp(path: &Path) -> Option<String> {
    let mut entries = Vec::new();
    let metadata = fs::metadata(path).ok()?;
    if metadata.is_dir() {
        add_entries(path, DEPTH, &mut entries);
    } else {
        entries.push(entry(path, &metadata));
    }
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    Some(Identity::of_value(json!(entries)).as_str().to_owned())
}

fn add_entries(directory: &Path, depth: u32, entries: &mut Vec<(String, Value)>) {
    let children = fs::read_dir(directory).into_iter().flatten().flatten();
    for child in children.filter(|child| !is_by_product(&child.file_name())) {
        let path = child.path();
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        if entries.len() >= MAX_ENTRIES {
            return;
        }
        if metadata.is_dir() {
            if depth > 1 {
                add_entries(&path, depth - 1, entries);
            }
        } else {
            entries.push(entry(&path, &metadata));
        }
    }
}

/// Returns true for the names of files and directories that model servers write beside their models when they start:
/// caches, locks and logs. They are no part of the model, and would make a new revision at each start.
fn is_by_product(name: &OsStr) -> bool {
    let is_written = |end: &OsStr| end == "lock" || end == "log";
    name.as_encoded_bytes().starts_with(b".")
        || name == "__pycache__"
        || Path::new(name).extension().is_some_and(is_written)
}

fn entry(path: &Path, metadata: &Metadata) -> (String, Value) {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let nanos = since.map(|since| since.as_nanos().to_string());
    (path.display().to_string(), json!([metadata.len(), nanos]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_two_consecutive_scans_agree() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("models/digits/model.pt");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "one").unwrap();
        let path = path("pvc://models/digits", folder.path()).unwrap();
        let (first, new) = (stamp(&path).unwrap(), |current: &str| Stamps { current: current.to_owned(), next: None });
        let mut models = StampedModels([(path.clone(), new(&first))].into());
        let mut look = |state: &str| models.update([(path.clone(), state.to_owned())].into());
        assert!(!look(&first) && !look(&first));
        assert!(!look("copying") && !look("copied") && look("copied"));
        assert!(!look("copied") && !look(&first) && !look("copied"));
        fs::write(&file, "four").unwrap();
        assert_ne!(stamp(&path), Some(first));
    }

    #[test]
    fn what_a_model_server_writes_beside_its_model_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        };
        write("1/model.py");
        let state = stamp(folder.path());
        for written in
            [".cache/index", "1/__pycache__/model.cpython-313.pyc", "1/model.py.lock", "server.log", ".ready"]
        {
            write(written);
            assert_eq!(stamp(folder.path()), state, "{written}");
        }
        write("1/model.log.py");
        assert_ne!(stamp(folder.path()), state);
    }

    #[test]
    fn only_local_files_have_a_state() {
        let claims = Path::new("/claims");
        let is = |uri, expected: Option<&str>| {
            assert_eq!(path(uri, claims), expected.map(PathBuf::from), "{uri}");
        };
        is("pvc://models/a", Some("/claims/models/a"));
        is("file:///models/a", Some("/models/a"));
        is("pvc://models/../../a", None);
        is("file://models/a", None);
        is("https://host/model.pt", None);
        assert_eq!(stamp(Path::new("/nonexistent/model.pt")), None);
    }
}
