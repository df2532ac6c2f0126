//! Interface to the code that runs models: the repository decides when a version is loaded and retired, a
//! [`Launch`] does it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::backend::LoadError;
use crate::config::ModelConfig;

/// Loads and retires single model versions.
pub(crate) trait Launch: Send + Sync + 'static {
    /// A version that answers requests.
    type Served: Send + Sync + 'static;

    /// Loads and warms up. Blocking: it runs on a loader thread. A panic is a failed load.
    ///
    /// # Errors
    /// [`LoadError`]; its text becomes the version's reason in the index.
    fn launch(&self, source: &VersionSource) -> Result<Self::Served, LoadError>;

    /// Accepts no more requests and waits for the accepted ones. The repository bounds the wait.
    fn retire(&self, served: Arc<Self::Served>) -> impl Future<Output = ()> + Send;

    /// The reason why a version is served with less than its configuration allows, for the index.
    fn doubt(_: &Self::Served) -> Option<&str> {
        None
    }

    /// Ends the loads that are under way, as far as they can be ended, and refuses later ones.
    fn close(&self) {}

    /// The file a version directory must hold for that backend (or platform); `None` where it needs none.
    ///
    /// # Errors
    /// An unknown backend; the text lists the known ones.
    fn default_filename(&self, backend: &str) -> Result<Option<&'static str>, LoadError>;
}

/// Paths and configuration of a model version to load.
#[derive(Clone, Debug)]
pub(crate) struct VersionSource {
    /// The model's name for clients.
    pub name: String,
    pub version: u64,
    /// The model's directory: labels and warm-up data lie under it.
    pub(crate) model_dir: PathBuf,
    /// The model file, or the version's directory for backends without one.
    pub path: PathBuf,
    /// The configuration, completed as far as it can be without the model.
    pub config: Arc<ModelConfig>,
    /// Class labels by output name, in order of their index.
    pub labels: BTreeMap<String, Vec<String>>,
}
