//! The files there are, and the last good state of each.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use weir_cluster::ServiceName;
use weir_crds::{Manifest, Object, read};

use super::collect::{self, Collected};
use super::generations::Generations;
use crate::ControllerError;
use crate::source::{Declaration, Service};

/// Files of a folder that are manifests, by their names' ends.
const ENDS: [&str; 3] = ["yaml", "yml", "json"];

/// The most bytes that are read of one file: an object may have 1.5 MiB in etcd, and a file holds a few.
const LARGEST: u64 = 16 << 20;

/// Paths, what was last good in each file below them, and what that declared.
#[derive(Debug)]
pub(super) struct ManifestSet {
    paths: Vec<PathBuf>,
    good: BTreeMap<PathBuf, ManifestFile>,
    last: Declaration,
    generations: Generations,
}

/// What one file holds. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct ManifestFile {
    /// One that was read as the same text means the same.
    text: Arc<str>,
    pub(super) manifests: Vec<Manifest>,
}

/// What the files hold now.
struct Contents {
    good: BTreeMap<PathBuf, ManifestFile>,
    problems: Vec<String>,
}

impl ManifestSet {
    pub(super) fn new(paths: &[PathBuf]) -> Self {
        Self {
            paths: paths.to_vec(),
            good: BTreeMap::new(),
            last: Declaration::default(),
            generations: Generations::default(),
        }
    }

    /// The first state, which has to be good.
    pub(super) fn first(&mut self) -> Result<Declaration, ControllerError> {
        let files = self
            .list()
            .map_err(|(path, source)| ControllerError::Read { path, source })?;
        let contents = self.contents(files);
        let collected = collect::collect(&contents.good);
        let problems = [contents.problems, collected.problems.clone()].concat();
        if !problems.is_empty() {
            return Err(ControllerError::InvalidManifests(problems));
        }
        Ok(self.declare(contents.good, collected, Vec::new()))
    }

    /// The paths, and the files that they hold now.
    pub(super) fn everything(&self) -> Vec<PathBuf> {
        let below = self.paths.iter().filter_map(|path| below(path).ok());
        let files = below.flatten();
        files.chain(self.paths.iter().cloned()).collect()
    }

    /// The state after something changed: what is wrong keeps what was good before.
    pub(super) fn next(&mut self) -> Declaration {
        let (files, unread) = match self.list() {
            Ok(files) => (files, None),
            // A path that is gone is more likely being replaced than a wish to stop everything.
            Err((path, error)) => {
                let files = self.good.keys().cloned().collect();
                (files, Some(format!("{}: {error}", path.display())))
            }
        };
        let mut contents = self.contents(files);
        // A file that is gone was told of when it was read.
        let unread = unread.filter(|problem| !contents.problems.contains(problem));
        contents.problems.extend(unread);
        let collected = collect::collect(&contents.good);
        if collected.problems.is_empty() {
            return self.declare(contents.good, collected, contents.problems);
        }
        contents.problems.extend(collected.problems);
        self.last.problems = contents.problems;
        self.last.clone()
    }

    fn declare(
        &mut self,
        good: BTreeMap<PathBuf, ManifestFile>,
        collected: Collected,
        problems: Vec<String>,
    ) -> Declaration {
        let services = self.generations.numbered(collected.services, now());
        self.good = shared(good, &services);
        self.last = Declaration {
            services,
            runtimes: collected.runtimes.into(),
            problems,
            ignored_objects: collected.ignored_objects,
        };
        self.last.clone()
    }

    /// What these files hold; a broken one what it held before.
    fn contents(&self, files: Vec<PathBuf>) -> Contents {
        let mut contents = Contents {
            good: BTreeMap::new(),
            problems: Vec::new(),
        };
        for file in files {
            match written(&file, self.good.get(&file)) {
                Ok(written) => {
                    contents.good.insert(file, written);
                }
                Err(problems) => {
                    contents.problems.extend(problems);
                    if let Some(before) = self.good.get(&file) {
                        contents.good.insert(file, before.clone());
                    }
                }
            }
        }
        contents
    }

    /// The files, each once, in the order of the paths.
    fn list(&self) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
        let mut files = Vec::new();
        for path in &self.paths {
            let found = below(path).map_err(|error| (path.clone(), error))?;
            for file in found {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }
}

/// A file itself; of a folder its manifests, by name. Folders below it are somebody else's: inputs,
/// models.
fn below(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let end = file
            .extension()
            .and_then(|end| end.to_str())
            .unwrap_or_default();
        if ENDS.contains(&end) && file.is_file() && !is_hidden(&file) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Editors keep what is not finished in hidden files.
fn is_hidden(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_none_or(|name| name.starts_with('.'))
}

/// What is kept of files has the services as they were numbered, and not another copy of each.
fn shared(
    mut good: BTreeMap<PathBuf, ManifestFile>,
    services: &BTreeMap<ServiceName, Arc<Service>>,
) -> BTreeMap<PathBuf, ManifestFile> {
    let manifests = good.values_mut().flat_map(|written| &mut written.manifests);
    for Manifest { object, .. } in manifests {
        if let Object::InferenceService(object) = object
            && let Ok(name) = collect::name(&object.metadata)
            && let Some(service) = services.get(&name)
        {
            *object = service.object.clone();
        }
    }
    good
}

fn written(file: &Path, before: Option<&ManifestFile>) -> Result<ManifestFile, Vec<String>> {
    let name = file.display().to_string();
    let text = fs::metadata(file).and_then(|meta| match meta.len() > LARGEST {
        true => Err(io::Error::other(format!(
            "it has more than {LARGEST} bytes"
        ))),
        false => fs::read_to_string(file),
    });
    let text = text.map_err(|error| vec![format!("{name}: {error}")])?;
    if let Some(same) = before.filter(|before| *before.text == *text) {
        return Ok(same.clone());
    }
    if text.trim().is_empty() && before.is_some_and(|before| !before.manifests.is_empty()) {
        // So is one that is being written, between its first step and its second.
        let mistake = "is empty; to take what it declares away, remove it";
        return Err(vec![format!("{name}: {mistake}")]);
    }
    match read(&name, &text) {
        Ok(manifests) => Ok(ManifestFile {
            text: text.into(),
            manifests,
        }),
        Err(mistakes) => Err(mistakes.iter().map(ToString::to_string).collect()),
    }
}

/// When a service was first seen: files have no other date of birth that an edit leaves alone.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the shell that owns the files' clock"
)]
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
