//! Interface to the code that runs models: the repository decides when a version is loaded and retired, and a
//! [`Launch`] does it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::backend::LoadError;
use crate::model::config::ModelConfig;

/// Loads and retires single model versions.
pub(crate) trait Launch: Send + Sync + 'static {
    /// A loaded version that answers requests.
    type Served: Send + Sync + 'static;

    /// Loads and warms up a version. Blocking; runs on a loader thread. A panic counts as a failed load.
    ///
    /// # Errors
    /// [`LoadError`]; its text becomes the version's reason in the index.
    fn launch(&self, source: &VersionSource) -> Result<Self::Served, LoadError>;

    /// Stops accepting requests, and waits for the accepted ones. The repository limits the wait.
    fn retire(&self, served: Arc<Self::Served>) -> impl Future<Output = ()> + Send;

    /// Returns the reason why a version is served with less than its configuration allows, for the index.
    fn limitation(_: &Self::Served) -> Option<&str> {
        None
    }

    /// Ends the loads in progress as far as possible, and refuses later ones.
    fn close(&self) {}

    /// Returns the file that a version directory must hold for this backend (or platform); `None` if it needs none.
    ///
    /// # Errors
    /// If the backend is unknown; the text lists the known ones.
    fn default_filename(&self, backend: &str) -> Result<Option<&'static str>, LoadError>;
}

/// Paths and configuration of a model version to load.
#[derive(Clone, Debug)]
pub(crate) struct VersionSource {
    /// The model's name for clients.
    pub name: String,
    pub version: u64,
    /// The model's directory, which contains labels and warm-up data.
    pub(crate) model_dir: PathBuf,
    /// The model file; the version's directory for backends that need no file.
    pub path: PathBuf,
    /// The configuration, completed as far as possible without the model.
    pub config: Arc<ModelConfig>,
    /// Class labels by output name, in the order of their index.
    pub labels: BTreeMap<String, Vec<String>>,
}
