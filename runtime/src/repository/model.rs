//! One model: its versions, each with its state and with what was last tried to make it serve.

use std::collections::BTreeMap;
use std::sync::Arc;

use tempfile::TempDir;

use super::changes::{self, Changes, Outcome, Retry};
use super::index::IndexEntry;
use super::inspect::{Fingerprint, Inspected};
use super::options::Listing;
use super::state::State;

/// A model that is known.
#[derive(Debug)]
pub(super) struct Model<S> {
    name: Arc<str>,
    versions: BTreeMap<u64, Version<S>>,
    /// The highest version that is ready: most requests name none.
    latest: Option<Arc<S>>,
    /// Why its directory could not be loaded when last looked at.
    trouble: Option<String>,
}

#[derive(Debug)]
struct Version<S> {
    state: State<S>,
    /// What was last tried; `None` when it is at rest.
    tried: Option<(Fingerprint, Outcome)>,
    /// Uploaded files that what serves was loaded from.
    scratch: Option<Arc<TempDir>>,
}

/// A version that no longer answers new requests and must be retired.
#[derive(Debug)]
pub(super) struct Leaving<S> {
    /// Its model.
    pub model: Arc<str>,
    /// Its number.
    pub version: u64,
    /// What served.
    pub served: Arc<S>,
}

impl<S> Clone for Model<S> {
    fn clone(&self) -> Self {
        let Self {
            name,
            versions,
            latest,
            trouble,
        } = self;
        Self {
            name: Arc::clone(name),
            versions: versions.clone(),
            latest: latest.clone(),
            trouble: trouble.clone(),
        }
    }
}

impl<S> Clone for Version<S> {
    fn clone(&self) -> Self {
        let Self {
            state,
            tried,
            scratch,
        } = self;
        Self {
            state: state.clone(),
            tried: tried.clone(),
            scratch: scratch.clone(),
        }
    }
}

impl<S> Default for Version<S> {
    fn default() -> Self {
        Self {
            state: State::unloaded(),
            tried: None,
            scratch: None,
        }
    }
}

impl<S> Model<S> {
    /// A model of which nothing was loaded.
    pub(super) fn new(name: &Arc<str>) -> Self {
        Self {
            name: Arc::clone(name),
            versions: BTreeMap::new(),
            latest: None,
            trouble: None,
        }
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What serves when no version is asked for.
    pub(super) fn latest(&self) -> Option<&Arc<S>> {
        self.latest.as_ref()
    }

    /// The state of a version that was ever tried.
    pub(super) fn state(&self, version: u64) -> Option<&State<S>> {
        self.versions.get(&version).map(|version| &version.state)
    }

    /// What serves, in order of the version.
    pub(super) fn serving(&self) -> impl Iterator<Item = (u64, &Arc<S>)> {
        self.versions
            .iter()
            .filter_map(|(number, version)| Some((*number, version.state.serving()?)))
    }

    /// Whether nobody ever tried to load it.
    pub(super) fn is_untouched(&self) -> bool {
        self.versions.is_empty() && self.trouble.is_none()
    }

    /// Whether nothing of it serves, loads or failed.
    pub(super) fn is_at_rest(&self) -> bool {
        let at_rest = |version: &Version<S>| matches!(version.state, State::Unloaded { .. });
        self.trouble.is_none() && self.versions.values().all(at_rest)
    }

    /// Whether nothing of it is amiss: each version serves, or rests because someone asked.
    pub(super) fn is_sound(&self) -> bool {
        let sound = |version: &Version<S>| match version.state {
            State::Ready(_) | State::Unloaded { .. } | State::Unloading(_) => true,
            State::Loading | State::Failed { .. } => false,
        };
        // A directory that went bad under a model that serves stops nobody.
        let known = self.trouble.is_none() || self.latest.is_some();
        known && self.versions.values().all(sound)
    }

    /// Its lines in the index.
    pub(super) fn index(&self, listing: Listing) -> Vec<IndexEntry> {
        let lines = self.versions.iter().filter(|(_, version)| match listing {
            Listing::All => true,
            Listing::Ready => version.state.serving().is_some(),
        });
        let mut lines: Vec<_> = lines
            .map(|(number, version)| IndexEntry::version(&self.name, *number, &version.state))
            .collect();
        match (listing, &self.trouble) {
            (Listing::All, Some(reason)) if self.latest.is_none() => {
                lines.insert(0, IndexEntry::failed_model(&self.name, reason));
            }
            (Listing::All, _) if lines.is_empty() => lines.push(IndexEntry::model(&self.name)),
            (Listing::All | Listing::Ready, _) => {}
        }
        lines
    }

    /// Decides what a new look at it asks for, and marks what will load as loading.
    pub(super) fn begin(&mut self, found: &Inspected, retry: Retry) -> Changes {
        let tried = self.versions.iter();
        let tried = tried.filter_map(|(number, version)| Some((*number, version.tried.clone()?)));
        let changes = changes::decide(&tried.collect(), &found.versions, retry);
        self.trouble = None;
        for version in &changes.load {
            self.versions.entry(*version).or_default().state.begin();
        }
        changes
    }

    /// A version loaded. Returns what it replaces.
    pub(super) fn succeed(
        &mut self,
        version: u64,
        from: &Inspected,
        served: Arc<S>,
    ) -> Option<Leaving<S>> {
        let entry = self.versions.entry(version).or_default();
        entry.tried = from
            .versions
            .get(&version)
            .cloned()
            .map(|found| (found, Outcome::Loaded));
        entry.scratch.clone_from(&from.scratch);
        let replaced = entry.state.succeed(served);
        self.find_latest();
        replaced.map(|served| Leaving {
            model: Arc::clone(&self.name),
            version,
            served,
        })
    }

    /// A version failed to load.
    pub(super) fn fail(&mut self, version: u64, from: &Inspected, reason: String) {
        let entry = self.versions.entry(version).or_default();
        entry.tried = from
            .versions
            .get(&version)
            .cloned()
            .map(|found| (found, Outcome::Failed));
        entry.state.fail(reason);
    }

    /// The directory is no use. Tells whether that is news.
    pub(super) fn suffer(&mut self, reason: &str) -> News {
        let news = if self.trouble.as_deref() == Some(reason) {
            News::Old
        } else {
            News::New
        };
        self.trouble = Some(reason.to_owned());
        news
    }

    /// These versions are no longer wanted. Returns what must be retired.
    pub(super) fn rest(&mut self, wanted: Resting<'_>) -> Vec<Leaving<S>> {
        let mut leaving = Vec::new();
        for (version, entry) in &mut self.versions {
            match wanted {
                Resting::These(versions) if !versions.contains(version) => {}
                Resting::These(_) | Resting::All => {
                    entry.tried = None;
                    entry.scratch = None;
                    let served = entry.state.rest();
                    leaving.extend(served.map(|served| (*version, served)));
                }
            }
        }
        if matches!(wanted, Resting::All) {
            self.trouble = None;
        }
        self.find_latest();
        let model = &self.name;
        let leaving = leaving.into_iter();
        leaving
            .map(|(version, served)| Leaving {
                model: Arc::clone(model),
                version,
                served,
            })
            .collect()
    }

    /// A retirement is over.
    pub(super) fn rested(&mut self, version: u64, served: &Arc<S>) {
        if let Some(entry) = self.versions.get_mut(&version) {
            entry.state.rested(served);
        }
    }

    fn find_latest(&mut self) {
        let highest = self
            .versions
            .values()
            .rev()
            .find_map(|version| version.state.serving());
        self.latest = highest.cloned();
    }
}

/// Which versions are to rest.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resting<'a> {
    /// Some.
    These(&'a [u64]),
    /// The model as a whole.
    All,
}

/// Whether something was known before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Worth a line in the log.
    New,
    /// Said already.
    Old,
}
