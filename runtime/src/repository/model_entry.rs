//! One model: its versions, each with its state and its last load attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use tempfile::TempDir;

use super::changes::{self, Attempts, FoundVersions, LoadOutcome, Retry};
use super::index::IndexEntry;
use super::inspect::{Fingerprint, Inspected, Stillness};
use super::options::IndexFilter;
use super::state::VersionState;

/// A model that the registry knows.
#[derive(Debug)]
pub(super) struct ModelEntry<S> {
    name: Arc<str>,
    versions: BTreeMap<u64, Version<S>>,
    /// The highest ready version: most requests name none.
    latest: Option<Arc<S>>,
    /// The reason why its directory could not be used at the last inspection.
    failure: Option<String>,
    maturity: Maturity,
}

/// How far a model has come since it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maturity {
    /// Not yet: every version that fails counts.
    New,
    /// All its versions served at once, and one has ever since: what comes later and fails takes nothing
    /// from what clients had.
    Established,
}

#[derive(Debug)]
struct Version<S> {
    state: VersionState<S>,
    /// The last load attempt; `None` while unloaded.
    attempt: Option<(Option<Fingerprint>, LoadOutcome)>,
    /// The reason why it serves what was loaded before.
    kept: Option<String>,
    /// The reason why the serving version does less than its configuration allows.
    doubt: Option<String>,
    /// Uploaded files that the serving version was loaded from.
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
        let Self { name, versions, latest, failure, maturity } = self;
        Self {
            name: Arc::clone(name),
            versions: versions.clone(),
            latest: latest.clone(),
            failure: failure.clone(),
            maturity: *maturity,
        }
    }
}

impl<S> Clone for Version<S> {
    fn clone(&self) -> Self {
        let Self { state, attempt, kept, doubt, uploaded } = self;
        Self {
            state: state.clone(),
            attempt: attempt.clone(),
            kept: kept.clone(),
            doubt: doubt.clone(),
            uploaded: uploaded.clone(),
        }
    }
}

impl<S> Default for Version<S> {
    fn default() -> Self {
        Self { state: VersionState::Unloaded, attempt: None, kept: None, doubt: None, uploaded: None }
    }
}

impl<S> ModelEntry<S> {
    /// A model of which nothing was loaded.
    pub(super) fn new(name: &Arc<str>) -> Self {
        Self { name: Arc::clone(name), versions: BTreeMap::new(), latest: None, failure: None, maturity: Maturity::New }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The version that answers requests which name none.
    pub(super) fn latest(&self) -> Option<&Arc<S>> {
        self.latest.as_ref()
    }

    /// The state of a version that a load was ever attempted of.
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

    /// True if no version serves, loads or failed.
    pub(super) fn is_unloaded(&self) -> bool {
        let unloaded = |version: &Version<S>| matches!(version.state, VersionState::Unloaded);
        self.failure.is_none() && self.versions.values().all(unloaded)
    }

    /// True if each version serves or was unloaded on purpose; of an established model, if one serves.
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
        // A directory that went bad does not stop a version that serves.
        let usable = self.failure.is_none() || self.latest.is_some();
        usable && self.versions.values().all(healthy)
    }

    /// The lines of the index for this model.
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
        let doubt = version.doubt.as_deref();
        IndexEntry::version(&self.name, number, &version.state, (kept, doubt))
    }

    /// Decides what an inspection asks for, and marks the versions to load as loading.
    pub(super) fn begin_load(&mut self, found: &Inspected, retry: Retry) -> Vec<u64> {
        let to_load = changes::to_load(&self.attempts(), &found.versions, retry);
        self.failure = None;
        for version in &to_load {
            self.versions.entry(*version).or_default().state.begin_load();
        }
        to_load
    }

    /// Takes the versions out of service that are not needed after the loads. Returns those that must be
    /// retired.
    pub(super) fn finish_loads(&mut self, found: &FoundVersions<Fingerprint>) -> Vec<Retiring<S>> {
        let to_unload = changes::to_unload(&self.attempts(), found);
        self.begin_unload(VersionSelection::Only(&to_unload))
    }

    fn attempts(&self) -> Attempts<Fingerprint> {
        let versions = self.versions.iter();
        let attempts = versions.filter_map(|(number, version)| Some((*number, version.attempt.clone()?)));
        attempts.collect()
    }

    /// Puts a loaded version into service. Returns the one it replaces.
    pub(super) fn finish_load(
        &mut self,
        version: u64,
        (from, stillness): (&Inspected, Stillness),
        (served, doubt): (Arc<S>, Option<String>),
    ) -> Option<Retiring<S>> {
        let entry = self.versions.entry(version).or_default();
        entry.doubt = doubt;
        entry.attempt = from.attempt(version, LoadOutcome::Loaded, stillness);
        entry.kept = None;
        entry.uploaded.clone_from(&from.uploaded);
        let replaced = entry.state.finish_load(served);
        self.update_service();
        replaced.map(|served| Retiring { model: Arc::clone(&self.name), version, served })
    }

    /// Marks a version whose load failed.
    pub(super) fn fail_load(&mut self, version: u64, (from, stillness): (&Inspected, Stillness), reason: String) {
        let entry = self.versions.entry(version).or_default();
        let outcome = match entry.state.serving() {
            Some(_) => LoadOutcome::Kept,
            None => LoadOutcome::Failed,
        };
        entry.attempt = from.attempt(version, outcome, stillness);
        entry.kept = entry.state.serving().map(|_| reason.clone());
        entry.state.fail_load(reason);
    }

    /// Marks the whole model as failed: its directory cannot be used. Returns whether the reason is new.
    pub(super) fn mark_failed(&mut self, reason: &str) -> bool {
        let is_new = self.failure.as_deref() != Some(reason);
        self.failure = Some(reason.to_owned());
        is_new
    }

    /// Takes versions out of service. Returns those that must be retired.
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

    /// Notes what the versions' states mean for the model as a whole.
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

/// The versions of a model that an unload is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum VersionSelection<'a> {
    Only(&'a [u64]),
    All,
}
