//! Repositories on other machines, of which local copies are served.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;

/// A model repository in a bucket or on a hub, with a local copy.
pub trait RemoteRepository: fmt::Debug + Send + Sync {
    /// Returns the directory of the copy, which exists and is empty before the first refresh.
    fn directory(&self) -> PathBuf;

    /// Updates the copies of the wanted models. A model that cannot be updated keeps its former files. The error is a
    /// sentence that names the object.
    fn refresh<'a>(&'a self, models: &'a RefreshedModels) -> Refresh<'a>;
}

/// Future of an update of a copy.
pub type Refresh<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Models whose copies are updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefreshedModels {
    /// Every model of the repository.
    All,
    /// The models with these names.
    Named(BTreeSet<String>),
}
