//! Every known model with its state, as one immutable value: requests read the current value without a lock, and loads
//! publish the next one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::index::IndexEntry;
use super::model_entry::ModelEntry;
use crate::error::ServeError;
use crate::repository::on_disk::catalog::Catalog;
use crate::repository::on_disk::names;
use crate::repository::on_disk::options::{IndexFilter, ReadinessPolicy};

/// The phase of the repository itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepositoryPhase {
    /// The initial loads are in progress.
    Starting,
    /// The initial loads are over.
    Started,
    /// All models are unloaded, and no more are loaded.
    Exiting,
}

impl RepositoryPhase {
    /// Returns the phase after the initial loads: started, unless an exit has begun.
    pub(super) fn after_start(self) -> Self {
        match self {
            Self::Starting | Self::Started => Self::Started,
            Self::Exiting => Self::Exiting,
        }
    }
}

/// All known models by name.
#[derive(Debug)]
pub(super) struct Registry<S> {
    pub phase: RepositoryPhase,
    models: HashMap<Arc<str>, Arc<ModelEntry<S>>>,
    /// Second names of models, mapped to their names.
    aliases: HashMap<Arc<str>, Arc<str>>,
}

impl<S> Clone for Registry<S> {
    fn clone(&self) -> Self {
        let Self { phase, models, aliases } = self;
        Self { phase: *phase, models: models.clone(), aliases: aliases.clone() }
    }
}

impl<S> Registry<S> {
    /// Finds the version that answers requests for a model and a version; "" means the highest ready version.
    ///
    /// # Errors
    /// If the model or version is unknown or not ready, or the server is exiting.
    pub(super) fn find(&self, name: &str, version: &str) -> Result<Arc<S>, ServeError> {
        let Some(model) = self.model(name) else {
            return Err(self.missing(ServeError::UnknownModel(name.to_owned())));
        };
        let found = if version.is_empty() {
            model.latest().ok_or_else(|| self.no_version(model, name))
        } else {
            find_version(model, name, version)
        };
        found.map(Arc::clone).map_err(|error| self.missing(error))
    }

    /// Returns the error for a model without a ready version. An unloaded model counts as unknown; one that is loading
    /// or failed does not.
    fn no_version(&self, model: &ModelEntry<S>, name: &str) -> ServeError {
        if self.phase == RepositoryPhase::Started && model.is_unloaded() {
            ServeError::UnknownModel(name.to_owned())
        } else {
            ServeError::NoVersions(name.to_owned())
        }
    }

    /// Returns the model with this name or alias.
    pub(super) fn model(&self, name: &str) -> Option<&ModelEntry<S>> {
        let model = self.models.get(name);
        model.or_else(|| self.models.get(self.aliases.get(name)?)).map(AsRef::as_ref)
    }

    /// Returns the registry's name for the model that answers to `name`.
    pub(super) fn canonical<'a>(&'a self, name: &'a str) -> &'a str {
        match self.aliases.get(name) {
            Some(canonical) if !self.models.contains_key(name) => canonical,
            Some(_) | None => name,
        }
    }

    /// The versions of a model that accept requests.
    pub(super) fn in_service(&self, name: &str) -> BTreeSet<u64> {
        self.model(name).into_iter().flat_map(ModelEntry::serving).map(|(version, _)| version).collect()
    }

    /// Names of the models that are missing from the catalog although they are loaded, loading or failed.
    pub(super) fn loaded_but_not_in(&self, catalog: &Catalog) -> BTreeSet<String> {
        let gone = self
            .models()
            .filter(|model| !catalog.contains_key(model.name()) && !model.is_never_loaded() && !model.is_unloaded());
        gone.map(|model| model.name().to_owned()).collect()
    }

    pub(super) fn models(&self) -> impl Iterator<Item = &ModelEntry<S>> {
        self.models.values().map(AsRef::as_ref)
    }

    pub(super) fn is_ready(&self, policy: ReadinessPolicy) -> bool {
        let healthy = match policy {
            ReadinessPolicy::Strict => self.models().all(ModelEntry::is_healthy),
            ReadinessPolicy::Lenient => true,
        };
        healthy && self.phase == RepositoryPhase::Started
    }

    /// Returns the repository index, in order of name and version.
    pub(super) fn index(&self, filter: IndexFilter) -> Vec<IndexEntry> {
        let mut models: Vec<_> = self.models().collect();
        models.sort_unstable_by(|left, right| left.name().cmp(right.name()));
        models.into_iter().flat_map(|model| model.index(filter)).collect()
    }

    /// Returns the model with this name for a change; adds it if it is new.
    pub(super) fn model_mut(&mut self, name: &str) -> &mut ModelEntry<S> {
        let name: Arc<str> = name.into();
        let model = self.models.entry(name).or_insert_with_key(|name| Arc::new(ModelEntry::new(name)));
        Arc::make_mut(model)
    }

    /// Returns all models for a change.
    pub(super) fn models_mut(&mut self) -> impl Iterator<Item = &mut ModelEntry<S>> {
        self.models.values_mut().map(Arc::make_mut)
    }

    /// True if [`apply`](Self::apply) of this catalog would change nothing.
    pub(super) fn matches(&self, catalog: &Catalog) -> bool {
        let known = |name: &String| self.models.contains_key(name.as_str());
        let kept = |model: &ModelEntry<S>| !model.is_never_loaded() || catalog.contains_key(model.name());
        self.aliases == aliases(catalog) && catalog.keys().all(known) && self.models().all(kept)
    }

    /// Adds the models of the catalog, and removes those that are not in it and were never loaded.
    pub(super) fn apply(&mut self, catalog: &Catalog) {
        self.aliases = aliases(catalog);
        for name in catalog.keys() {
            if !self.models.contains_key(name.as_str()) {
                self.model_mut(name);
            }
        }
        self.models.retain(|name, model| catalog.contains_key(&**name) || !model.is_never_loaded());
    }

    /// Returns the error for a request that finds no version; an exiting server reports the exit instead.
    fn missing(&self, error: ServeError) -> ServeError {
        match self.phase {
            RepositoryPhase::Starting | RepositoryPhase::Started => error,
            RepositoryPhase::Exiting => ServeError::Exiting,
        }
    }
}

/// Returns the aliases in the catalog, mapped to names.
fn aliases(catalog: &Catalog) -> HashMap<Arc<str>, Arc<str>> {
    let aliased = catalog.values().filter_map(|entry| Some((entry.alias.as_deref()?, entry.name.as_str())));
    aliased.map(|(alias, name)| (alias.into(), name.into())).collect()
}

fn find_version<'a, S>(model: &'a ModelEntry<S>, name: &str, version: &str) -> Result<&'a Arc<S>, ServeError> {
    let (model_name, asked) = (name.to_owned(), version.to_owned());
    match names::version(version).and_then(|number| model.state(number)) {
        None => Err(ServeError::UnknownVersion { model: model_name, version: asked }),
        Some(state) => state.serving().ok_or(ServeError::VersionNotReady { model: model_name, version: asked }),
    }
}

/// The current [`Registry`], which requests read and loads replace.
#[derive(Debug)]
pub(super) struct SharedRegistry<S> {
    current: ArcSwap<Registry<S>>,
    /// Number of replacements so far.
    changes: watch::Sender<u64>,
    /// Held while the next registry is built from the current one, so that no change is lost.
    writing: Mutex<()>,
}

impl<S> SharedRegistry<S> {
    /// Creates a registry without models.
    pub(super) fn new() -> Self {
        let registry = Registry { phase: RepositoryPhase::Starting, models: HashMap::new(), aliases: HashMap::new() };
        Self { current: ArcSwap::from_pointee(registry), changes: watch::Sender::new(0), writing: Mutex::new(()) }
    }

    /// Returns the current registry without waiting.
    pub(super) fn load(&self) -> Guard<Arc<Registry<S>>> {
        self.current.load()
    }

    /// Returns a receiver that counts the replacements.
    #[cfg(test)]
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Replaces the registry with a changed copy.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Registry<S>) -> T) -> T {
        let _writing = self.writing.lock();
        let mut registry = Registry::clone(&self.current.load());
        let outcome = change(&mut registry);
        self.current.store(Arc::new(registry));
        self.changes.send_modify(|count| *count += 1);
        outcome
    }
}
