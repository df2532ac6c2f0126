//! One model: its versions, each with its state and its last load attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use tempfile::TempDir;

use super::changes::{self, Attempts, FoundVersions, LoadOutcome, Retry};
use super::index::IndexEntry;
use super::inspect::{Fingerprint, Inspected, Stability};
use super::state::VersionState;
use crate::repository::on_disk::options::IndexFilter;

/// A model in the registry.
#[derive(Debug)]
pub(super) struct ModelEntry<S> {
    name: Arc<str>,
    versions: BTreeMap<u64, Version<S>>,
    /// The highest ready version, for the many requests that name no version; `None` if no version is ready.
    latest: Option<Arc<S>>,
    /// The reason why the model's directory could not be used at the last inspection; `None` if it could be used.
    failure: Option<String>,
    maturity: Maturity,
    config_texts: ConfigTexts,
}

/// Texts of the configuration file at the last inspections.
#[derive(Clone, Debug, Default)]
struct ConfigTexts {
    /// The text of the last load; `None` before the first one.
    in_use: Option<Arc<str>>,
    /// The text of the last poll, if it looked cut off.
    cut_off: Option<Arc<str>>,
}

/// Service history of a model since it was found, which decides whether failed versions affect its health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maturity {
    /// The model's versions never all served at once, so every failed version affects its health.
    New,
    /// All versions served at once, and at least one has served ever since. A version that fails later takes nothing
    /// away from clients.
    Established,
}

#[derive(Debug)]
struct Version<S> {
    state: VersionState<S>,
    /// The last load attempt; `None` while the version is unloaded.
    attempt: Option<(Option<Fingerprint>, LoadOutcome)>,
    /// The reason why the version still serves the previous load; `None` unless a reload failed.
    kept: Option<String>,
    /// The reason why the version serves with less than its configuration allows; `None` if it serves in full.
    limitation: Option<String>,
    /// Uploaded files that the serving version was loaded from; `None` if it was loaded from the repository.
    uploaded: Option<Arc<TempDir>>,
}

/// A version that accepts no more requests and must be retired.
#[derive(Debug)]
pub(super) struct Retiring<S> {
    pub(crate) model: Arc<str>,
    pub version: u64,
    pub served: Arc<S>,
}

impl<S> Clone for ModelEntry<S> {
    fn clone(&self) -> Self {
        let Self { name, versions, latest, failure, maturity, config_texts } = self;
        Self {
            name: Arc::clone(name),
            versions: versions.clone(),
            latest: latest.clone(),
            failure: failure.clone(),
            maturity: *maturity,
            config_texts: config_texts.clone(),
        }
    }
}

impl<S> Clone for Version<S> {
    fn clone(&self) -> Self {
        let Self { state, attempt, kept, limitation, uploaded } = self;
        Self {
            state: state.clone(),
            attempt: attempt.clone(),
            kept: kept.clone(),
            limitation: limitation.clone(),
            uploaded: uploaded.clone(),
        }
    }
}

impl<S> Default for Version<S> {
    fn default() -> Self {
        Self { state: VersionState::Unloaded, attempt: None, kept: None, limitation: None, uploaded: None }
    }
}

impl<S> ModelEntry<S> {
    /// Creates a model that has no loaded versions.
    pub(super) fn new(name: &Arc<str>) -> Self {
        Self {
            name: Arc::clone(name),
            versions: BTreeMap::new(),
            latest: None,
            failure: None,
            maturity: Maturity::New,
            config_texts: ConfigTexts::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The version that answers requests without a version.
    pub(super) fn latest(&self) -> Option<&Arc<S>> {
        self.latest.as_ref()
    }

    /// Returns the state of a version; `None` if no load of it was ever attempted.
    pub(super) fn state(&self, version: u64) -> Option<&VersionState<S>> {
        self.versions.get(&version).map(|version| &version.state)
    }

    /// The versions that accept requests, in ascending order.
    pub(super) fn serving(&self) -> impl Iterator<Item = (u64, &Arc<S>)> {
        self.versions.iter().filter_map(|(number, version)| Some((*number, version.state.serving()?)))
    }

    /// True if no load was ever attempted.
    pub(super) fn is_never_loaded(&self) -> bool {
        self.versions.is_empty() && self.failure.is_none()
    }

    /// True if every version is unloaded: none serves, loads or failed.
    pub(super) fn is_unloaded(&self) -> bool {
        let unloaded = |version: &Version<S>| matches!(version.state, VersionState::Unloaded);
        self.failure.is_none() && self.versions.values().all(unloaded)
    }

    /// True if each version serves or was unloaded on purpose; for an established model, if any version serves.
    pub(super) fn is_healthy(&self) -> bool {
        match self.maturity {
            Maturity::Established => true,
            Maturity::New => self.is_complete(),
        }
    }

    fn is_complete(&self) -> bool {
        let healthy = |version: &Version<S>| match version.state {
            VersionState::Ready(_) | VersionState::Unloaded | VersionState::Unloading(_) => true,
            VersionState::Loading | VersionState::Failed { .. } => false,
        };
        // If a version serves, a directory that became unusable does not stop it.
        let usable = self.failure.is_none() || self.latest.is_some();
        usable && self.versions.values().all(healthy)
    }

    /// Returns the model's entries in the index.
    pub(super) fn index(&self, filter: IndexFilter) -> Vec<IndexEntry> {
        let lines = self.versions.iter().filter(|(_, version)| match filter {
            IndexFilter::All => true,
            IndexFilter::Ready => version.state.serving().is_some(),
        });
        let mut lines: Vec<_> = lines.map(|(number, version)| self.line(*number, version)).collect();
        match (filter, &self.failure) {
            (IndexFilter::All, Some(reason)) if self.latest.is_none() => {
                lines.insert(0, IndexEntry::failed_model(&self.name, reason));
            }
            (IndexFilter::All, _) if lines.is_empty() => lines.push(IndexEntry::model(&self.name)),
            (IndexFilter::All | IndexFilter::Ready, _) => {}
        }
        lines
    }

    fn line(&self, number: u64, version: &Version<S>) -> IndexEntry {
        let kept = version.kept.as_deref().or(self.failure.as_deref());
        let limitation = version.limitation.as_deref();
        IndexEntry::version(&self.name, number, &version.state, (kept, limitation))
    }

    /// Returns true if a poll must not use the configuration that it found, because the file may be in the middle of a
    /// rewrite. A text that is found by two polls in a row is used.
    pub(super) fn awaits_configuration(&mut self, found: &Inspected) -> bool {
        let (Some(text), Some(in_use)) = (&found.config_text, &self.config_texts.in_use) else { return false };
        let is_new = changes::is_cut_off(text, in_use) && self.config_texts.cut_off.as_ref() != Some(text);
        self.config_texts.cut_off = is_new.then(|| Arc::clone(text));
        is_new
    }

    /// Decides which versions an inspection requires to load, and marks them as loading.
    pub(super) fn begin_load(&mut self, found: &Inspected, retry: Retry) -> Vec<u64> {
        self.config_texts = ConfigTexts { in_use: found.config_text.clone(), cut_off: None };
        let to_load = changes::to_load(&self.attempts(), &found.versions, retry);
        self.failure = None;
        for version in &to_load {
            self.versions.entry(*version).or_default().state.begin_load();
        }
        to_load
    }

    /// Takes versions out of service that are no longer needed after the loads. Returns those to retire.
    pub(super) fn finish_loads(&mut self, found: &FoundVersions<Fingerprint>) -> Vec<Retiring<S>> {
        let to_unload = changes::to_unload(&self.attempts(), found);
        self.begin_unload(VersionSelection::Only(&to_unload))
    }

    fn attempts(&self) -> Attempts<Fingerprint> {
        self.versions.iter().filter_map(|(number, version)| Some((*number, version.attempt.clone()?))).collect()
    }

    /// Puts a loaded version into service. Returns the version that it replaces.
    pub(super) fn finish_load(
        &mut self,
        version: u64,
        (from, stability): (&Inspected, Stability),
        (served, limitation): (Arc<S>, Option<String>),
    ) -> Option<Retiring<S>> {
        let entry = self.versions.entry(version).or_default();
        entry.limitation = limitation;
        entry.attempt = from.attempt(version, LoadOutcome::Loaded, stability);
        entry.kept = None;
        entry.uploaded.clone_from(&from.uploaded);
        let replaced = entry.state.finish_load(served);
        self.update_service();
        replaced.map(|served| Retiring { model: Arc::clone(&self.name), version, served })
    }

    /// Marks a version whose load failed.
    pub(super) fn fail_load(&mut self, version: u64, (from, stability): (&Inspected, Stability), reason: String) {
        let entry = self.versions.entry(version).or_default();
        let outcome = match entry.state.serving() {
            Some(_) => LoadOutcome::Kept,
            None => LoadOutcome::Failed,
        };
        entry.attempt = from.attempt(version, outcome, stability);
        entry.kept = entry.state.serving().map(|_| reason.clone());
        entry.state.fail_load(reason);
    }

    /// Marks the whole model as failed, because its directory cannot be used. Returns true if the reason is new.
    pub(super) fn mark_failed(&mut self, reason: &str) -> bool {
        let is_new = self.failure.as_deref() != Some(reason);
        self.failure = Some(reason.to_owned());
        is_new
    }

    /// Takes versions out of service. Returns those to retire.
    pub(super) fn begin_unload(&mut self, selection: VersionSelection<'_>) -> Vec<Retiring<S>> {
        let mut retiring = Vec::new();
        for (version, entry) in &mut self.versions {
            match selection {
                VersionSelection::Only(versions) if !versions.contains(version) => {}
                VersionSelection::Only(_) | VersionSelection::All => {
                    entry.attempt = None;
                    entry.kept = None;
                    entry.uploaded = None;
                    retiring.extend(entry.state.begin_unload().map(|served| Retiring {
                        model: Arc::clone(&self.name),
                        version: *version,
                        served,
                    }));
                }
            }
        }
        if matches!(selection, VersionSelection::All) {
            self.failure = None;
            self.config_texts = ConfigTexts::default();
        }
        self.update_service();
        retiring
    }

    /// Marks the end of a version's retirement.
    pub(super) fn finish_unload(&mut self, version: u64, served: &Arc<S>) {
        if let Some(entry) = self.versions.get_mut(&version) {
            entry.state.finish_unload(served);
        }
    }

    /// Updates the state of the model as a whole from the states of its versions.
    fn update_service(&mut self) {
        let highest = self.versions.values().rev().find_map(|version| version.state.serving());
        self.latest = highest.cloned();
        self.maturity = match self.latest {
            None => Maturity::New,
            Some(_) if self.is_complete() => Maturity::Established,
            Some(_) => self.maturity,
        };
    }
}

/// The versions of a model to unload.
#[derive(Clone, Copy, Debug)]
pub(super) enum VersionSelection<'a> {
    Only(&'a [u64]),
    All,
}
