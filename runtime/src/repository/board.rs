//! What is known of every model right now, as one value that is replaced whole: a request reads it
//! without a lock, a load publishes the next one.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::index::IndexEntry;
use super::listing::Catalog;
use super::model::Model;
use super::options::{Listing, Readiness};
use super::versions;
use crate::error::ServeError;

/// Where the repository is in its own life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The initial loads are not over.
    Starting,
    /// They are.
    Started,
    /// Everything is put to rest, nothing loads any more.
    Exiting,
}

/// Every model that is known.
#[derive(Debug)]
pub(super) struct Board<S> {
    /// The repository's own state.
    pub phase: Phase,
    models: HashMap<Arc<str>, Arc<Model<S>>>,
    /// Other names that models answer to.
    aliases: HashMap<Arc<str>, Arc<str>>,
}

impl<S> Clone for Board<S> {
    fn clone(&self) -> Self {
        let Self {
            phase,
            models,
            aliases,
        } = self;
        Self {
            phase: *phase,
            models: models.clone(),
            aliases: aliases.clone(),
        }
    }
}

impl<S> Board<S> {
    /// What answers requests for that model and version; the highest ready version for "".
    ///
    /// # Errors
    /// Which of the ways of not being there it is.
    pub(super) fn find(&self, name: &str, version: &str) -> Result<Arc<S>, ServeError> {
        let Some(model) = self.model(name) else {
            return Err(self.missing(ServeError::UnknownModel(name.to_owned())));
        };
        let found = if version.is_empty() {
            model.latest().ok_or_else(|| self.absent(model, name))
        } else {
            find_version(model, name, version)
        };
        found.map(Arc::clone).map_err(|error| self.missing(error))
    }

    /// What to say of a model without a ready version: one that nobody wants loaded is as good as
    /// unknown, one that loads or failed is not.
    fn absent(&self, model: &Model<S>, name: &str) -> ServeError {
        if self.phase == Phase::Started && model.is_at_rest() {
            ServeError::UnknownModel(name.to_owned())
        } else {
            ServeError::NoVersions(name.to_owned())
        }
    }

    /// The model of that name.
    pub(super) fn model(&self, name: &str) -> Option<&Model<S>> {
        let model = self.models.get(name);
        model
            .or_else(|| self.models.get(self.aliases.get(name)?))
            .map(AsRef::as_ref)
    }

    /// The name by which the model that answers to `name` is known here.
    pub(super) fn canonical<'a>(&'a self, name: &'a str) -> &'a str {
        match self.aliases.get(name) {
            Some(canonical) if !self.models.contains_key(name) => canonical,
            Some(_) | None => name,
        }
    }

    /// Every model, in no order.
    pub(super) fn models(&self) -> impl Iterator<Item = &Model<S>> {
        self.models.values().map(AsRef::as_ref)
    }

    /// Whether the server may say that it is ready.
    pub(super) fn ready(&self, demand: Readiness) -> bool {
        let sound = match demand {
            Readiness::Strict => self.models().all(Model::is_sound),
            Readiness::Lenient => true,
        };
        sound && self.phase == Phase::Started
    }

    /// What the index shows, in order of name and version.
    pub(super) fn index(&self, listing: Listing) -> Vec<IndexEntry> {
        let mut models: Vec<_> = self.models().collect();
        models.sort_unstable_by(|left, right| left.name().cmp(right.name()));
        models
            .into_iter()
            .flat_map(|model| model.index(listing))
            .collect()
    }

    /// The model of that name, made if it is new, to be changed.
    pub(super) fn model_mut(&mut self, name: &str) -> &mut Model<S> {
        let name: Arc<str> = name.into();
        let model = self
            .models
            .entry(name)
            .or_insert_with_key(|name| Arc::new(Model::new(name)));
        Arc::make_mut(model)
    }

    /// Every model, to be changed.
    pub(super) fn models_mut(&mut self) -> impl Iterator<Item = &mut Model<S>> {
        self.models.values_mut().map(Arc::make_mut)
    }

    /// Whether a look at the repository paths found nothing new.
    pub(super) fn knows(&self, catalog: &Catalog) -> bool {
        let known = |name: &String| self.models.contains_key(name.as_str());
        let belongs =
            |model: &Model<S>| !model.is_untouched() || catalog.contains_key(model.name());
        self.aliases == aliases(catalog) && catalog.keys().all(known) && self.models().all(belongs)
    }

    /// Makes known what a look at the repository paths found.
    pub(super) fn learn(&mut self, catalog: &Catalog) {
        self.aliases = aliases(catalog);
        for name in catalog.keys() {
            if !self.models.contains_key(name.as_str()) {
                self.model_mut(name);
            }
        }
        self.models
            .retain(|name, model| catalog.contains_key(&**name) || !model.is_untouched());
    }

    /// A server that is ending says so first.
    fn missing(&self, error: ServeError) -> ServeError {
        match self.phase {
            Phase::Starting | Phase::Started => error,
            Phase::Exiting => ServeError::Exiting,
        }
    }
}

/// Other names to the names they stand for.
fn aliases(catalog: &Catalog) -> HashMap<Arc<str>, Arc<str>> {
    let models = catalog.values();
    let aliased = models.filter_map(|found| Some((found.alias.as_deref()?, found.name.as_str())));
    aliased
        .map(|(alias, name)| (alias.into(), name.into()))
        .collect()
}

fn find_version<'a, S>(
    model: &'a Model<S>,
    name: &str,
    version: &str,
) -> Result<&'a Arc<S>, ServeError> {
    let (model_name, asked) = (name.to_owned(), version.to_owned());
    match versions::number(version).and_then(|number| model.state(number)) {
        None => Err(ServeError::UnknownVersion {
            model: model_name,
            version: asked,
        }),
        Some(state) => state.serving().ok_or(ServeError::VersionNotReady {
            model: model_name,
            version: asked,
        }),
    }
}

/// The board that counts, and the way to the next one.
#[derive(Debug)]
pub(super) struct Published<S> {
    current: ArcSwap<Board<S>>,
    /// How many boards there were before.
    count: watch::Sender<u64>,
    /// Held while the next board is made from the current one: no change is lost.
    writing: Mutex<()>,
}

impl<S> Published<S> {
    /// A board without models.
    pub(super) fn new() -> Self {
        let board = Board {
            phase: Phase::Starting,
            models: HashMap::new(),
            aliases: HashMap::new(),
        };
        Self {
            current: ArcSwap::from_pointee(board),
            count: watch::Sender::new(0),
            writing: Mutex::new(()),
        }
    }

    /// The board as it is now. Never waits.
    pub(super) fn load(&self) -> Guard<Arc<Board<S>>> {
        self.current.load()
    }

    /// Tells of every board that is published from now on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    /// Publishes a changed board.
    pub(super) fn edit<T>(&self, change: impl FnOnce(&mut Board<S>) -> T) -> T {
        let _writing = self.writing.lock();
        let mut board = Board::clone(&self.current.load());
        let outcome = change(&mut board);
        self.current.store(Arc::new(board));
        self.count.send_modify(|count| *count += 1);
        outcome
    }
}
