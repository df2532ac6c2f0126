//! Manifest files below the given paths, with the last valid version of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::time::Instant;
use weir_cluster::ServiceName;
use weir_crds::{Incomplete, Manifest, Object};

use super::absent::{self, Absence, AbsentObject, DELETION_DELAY};
use super::collect::{self, Collected, Origins};
use super::generations::CreationTimes;
use super::generations::Generations;
use super::manifest_file::{ManifestFile, STDIN};
use super::model_stamps::StampedModels;
use super::object_errors::service_name;
use super::object_key::ObjectKey;
use crate::declaration::{Declaration, DeclaredService};
use crate::error::ControllerError;
use crate::manifest::service::Service;
use crate::manifest::validate::Platform;
use crate::runtimes::Runtimes;

/// Extensions of manifests in a directory.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", JSON];

/// Extension that not only manifests have: exported models often come with settings and vocabularies in JSON.
const JSON: &str = "json";

/// Bytes at the start of a JSON file that are searched for the fields of a manifest; kubectl writes those first.
const SEARCHED: u64 = 64 << 10;

/// Given paths, the last usable version of each file below them, and the declaration made from these.
#[derive(Debug)]
pub(super) struct ManifestSet {
    paths: Vec<PathBuf>,
    platform: Platform,
    valid: BTreeMap<PathBuf, ManifestFile>,
    last: Declaration,
    /// File of each object that `last` declares.
    origins: Origins,
    /// Objects that are in no file any more and are still declared.
    absent: Vec<AbsentObject>,
    /// Time of the last read that found a changed file.
    changed_at: Instant,
    /// Time at which absent objects may be deleted, if no file changes until then; `None` if no object awaits it.
    settles_at: Option<Instant>,
    models: Arc<Mutex<StampedModels>>,
    generations: Generations,
}

/// Present contents of the files.
struct Contents {
    valid: BTreeMap<PathBuf, ManifestFile>,
    problems: Vec<String>,
    /// Files of which nothing could be read; they keep their last valid version.
    unread: BTreeSet<PathBuf>,
}

impl ManifestSet {
    /// Returns a set that has read nothing yet. The first services read get these creation times.
    pub(super) fn new(paths: &[PathBuf], platform: Platform, created: CreationTimes, now: Instant) -> Self {
        Self {
            paths: paths.to_vec(),
            platform,
            valid: BTreeMap::new(),
            last: Declaration::default(),
            origins: Origins::new(),
            absent: Vec::new(),
            changed_at: now,
            settles_at: None,
            models: Arc::default(),
            generations: Generations::new(created),
        }
    }

    /// Returns the services' model files, whose states are part of the services.
    pub(super) fn models(&self) -> Arc<Mutex<StampedModels>> {
        Arc::clone(&self.models)
    }

    /// Reads the files for the first time. Objects with errors are left out and reported in the problems.
    ///
    /// # Errors
    /// [`ControllerError::Read`] for a path that cannot be listed.
    pub(super) fn first(&mut self) -> Result<Declaration, ControllerError> {
        let files = self.list().map_err(|(path, source)| ControllerError::Read { path, source })?;
        let contents = self.contents(files);
        Ok(self.declare(contents, self.changed_at))
    }

    /// Returns the given paths and the files that are below them now.
    pub(super) fn all_paths(&self) -> Vec<PathBuf> {
        let below = self.paths.iter().filter_map(|path| below(path).ok());
        let files = below.flatten();
        files.chain(self.paths.iter().cloned()).collect()
    }

    /// Returns the time at which to read the files again even without a change, to delete objects.
    pub(super) fn settles_at(&self) -> Option<Instant> {
        self.settles_at
    }

    /// Reads the files again. A broken file keeps its last valid version.
    pub(super) fn next(&mut self, now: Instant) -> Declaration {
        let (files, unread) = match self.list() {
            Ok(files) => (files, None),
            // A missing path is probably being replaced; it must not stop every service.
            Err((path, error)) => {
                let files = self.valid.keys().cloned().collect();
                (files, Some(format!("{}: {error}", path.display())))
            }
        };
        let mut contents = self.contents(files);
        // A missing file was already reported when it was read.
        let unread = unread.filter(|problem| !contents.problems.contains(problem));
        contents.problems.extend(unread);
        self.declare(contents, now)
    }

    fn declare(&mut self, contents: Contents, now: Instant) -> Declaration {
        let hidden = self.keep_absent(&contents, now);
        let Contents { valid, mut problems, .. } = contents;
        problems.extend(hidden);
        let kept = self.absent.iter().map(|object| (&*object.folder, &object.manifest));
        let Collected { mut services, runtimes, ignored_objects, problems: conflicts, origins, .. } =
            collect::collect(&valid, kept, &self.origins);
        problems.extend(conflicts);
        self.origins = origins;
        self.stamp(&mut services);
        let services = self.generations.assign(services, seconds_now());
        let valid = share_objects(valid, &services);
        let declared = Declaration::new(services, runtimes, &self.last, &self.platform);
        problems.extend(incomplete_errors(&valid, &declared.runtimes, &self.platform));
        self.valid = valid;
        self.last = Declaration { problems, ignored_objects, ..declared };
        self.last.clone()
    }

    /// Determines the absent objects that are not deleted yet. Returns a problem for each that errors may hide.
    fn keep_absent(&mut self, contents: &Contents, now: Instant) -> Vec<String> {
        let Contents { valid, unread, .. } = contents;
        if !has_same_texts(valid, &self.valid) {
            self.changed_at = now;
        }
        self.settles_at = None;
        let mut problems = Vec::new();
        let before = std::mem::take(&mut self.absent);
        for object in absent::absent_objects(valid, &self.valid, before, &self.origins) {
            let key = ObjectKey::of(&object.manifest.object);
            match absent::absence(&key, valid, unread, now.duration_since(self.changed_at)) {
                Absence::Unsettled => self.settles_at = Some(self.changed_at + DELETION_DELAY),
                Absence::Hidden(file) => problems.push(absent::hidden(&key, &file)),
                Absence::Final => continue,
            }
            self.absent.push(object);
        }
        problems
    }

    /// Adds the states of the services' model files.
    fn stamp(&self, services: &mut BTreeMap<ServiceName, Service>) {
        let mut models = self.models.lock();
        for service in services.values_mut() {
            if let Some(claims) = &service.claims {
                service.model_stamps = models.of(&service.object.read(), claims);
            }
        }
    }

    /// Reads the files. A broken file keeps its last valid version.
    fn contents(&self, files: Vec<PathBuf>) -> Contents {
        let mut contents = Contents { valid: BTreeMap::new(), problems: Vec::new(), unread: BTreeSet::new() };
        for file in files {
            let before = self.valid.get(&file);
            let read = match ManifestFile::read(&file, before) {
                Ok(read) => {
                    contents.problems.extend_from_slice(&read.problems);
                    Some(read)
                }
                Err(problems) => {
                    contents.problems.extend(problems);
                    contents.unread.insert(file.clone());
                    before.cloned()
                }
            };
            contents.valid.extend(read.map(|read| (file, read)));
        }
        contents
    }

    /// Returns the files in the order of the paths, each once: a file given together with its folder, or by a link, is
    /// the same.
    fn list(&self) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
        let (mut files, mut places) = (Vec::new(), BTreeSet::new());
        for path in &self.paths {
            let found = below(path).map_err(|error| (path.clone(), error))?;
            for file in found {
                let place = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
                if places.insert(place) {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }
}

/// Returns true if both are the same files with the same texts.
fn has_same_texts(files: &BTreeMap<PathBuf, ManifestFile>, before: &BTreeMap<PathBuf, ManifestFile>) -> bool {
    let mut pairs = files.iter().zip(before);
    files.len() == before.len()
        && pairs.all(|((path, file), (path_before, before))| path == path_before && file.has_text_of(before))
}

/// Validates the valid fields of services that also have invalid ones, so that one pass reports all errors.
fn incomplete_errors(files: &BTreeMap<PathBuf, ManifestFile>, runtimes: &Runtimes, platform: &Platform) -> Vec<String> {
    let all = files.values().flat_map(|file| file.incomplete.iter().map(move |incomplete| (file, incomplete)));
    let each = all.filter_map(|(file, incomplete)| {
        let service = collect::service(&file.folder, &incomplete.manifest)?;
        let components = DeclaredService::all(&Arc::new(service), runtimes, platform);
        Some(components.iter().flat_map(|declared| sure_errors(declared, incomplete)).collect::<Vec<_>>())
    });
    each.flatten().collect()
}

/// Returns the errors of a component in the fields that could be read.
fn sure_errors(declared: &DeclaredService, incomplete: &Incomplete) -> Vec<String> {
    let errors = declared.validation.as_ref().err().into_iter().flat_map(|errors| &errors.list);
    let sure = errors.filter(|error| !incomplete.is_unsure(&error.field));
    sure.map(|error| declared.service.located(&error.field, &error.message)).collect()
}

/// Returns `path` itself if it is a file, otherwise the manifests in this directory, sorted by name. Subdirectories are
/// ignored, because they hold inputs and models.
fn below(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path == Path::new(STDIN) || !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        let is_manifest = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
        let is_manifest = is_manifest && file.is_file() && !is_hidden(&file);
        if is_manifest && (extension != Some(JSON) || may_be_manifest(&file)) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns true for JSON with a field that every manifest has, and for a file that cannot be read, which is reported
/// later.
fn may_be_manifest(file: &Path) -> bool {
    let mut begin = Vec::new();
    let read = fs::File::open(file).and_then(|open| open.take(SEARCHED).read_to_end(&mut begin));
    let begin = String::from_utf8_lossy(&begin);
    read.is_err() || begin.contains("\"apiVersion\"") || begin.contains("\"kind\"")
}

/// Returns true for a hidden file, in which editors keep unfinished text.
fn is_hidden(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_none_or(|name| name.starts_with('.'))
}

/// Replaces the services in the files by the equal ones with generations, so that only one copy of each is kept in
/// memory.
fn share_objects(
    mut valid: BTreeMap<PathBuf, ManifestFile>,
    services: &BTreeMap<ServiceName, Arc<Service>>,
) -> BTreeMap<PathBuf, ManifestFile> {
    let manifests = valid.values_mut().flat_map(|file| &mut file.manifests);
    for Manifest { object, spans } in manifests {
        if let Object::InferenceService(object) = object
            && let Ok(name) = service_name(&object.metadata)
            && let Some(service) = services.get(&name)
            // A second declaration of the same name has other positions, and is left alone.
            && service.spans.as_ref() == Some(spans)
        {
            *object = service.object.read();
        }
    }
    valid
}

/// Returns the seconds since 1970, the creation time of services read for the first time: files have no creation time
/// that survives an edit.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the clock for services in files")]
fn seconds_now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
