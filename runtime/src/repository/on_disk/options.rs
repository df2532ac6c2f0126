//! Options of the repository, from the command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::repository::RemoteRepository;
use crate::repository::on_disk::stamp::ChangeDetection;

/// The times at which models are loaded (`--model-control-mode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ControlMode {
    /// The whole repository, once, at start.
    None,
    /// The models of `--load-model` at start (`*` means all), then those that clients request.
    Explicit {
        /// Models to load at start.
        load: Vec<String>,
    },
    /// The whole repository at start and again after each period.
    Poll(Duration),
}

impl ControlMode {
    /// Returns the depth of change detection. In mode explicit file contents are compared too, because a client that
    /// requests a load expects the current contents, whatever the times of the files are.
    pub(in crate::repository) const fn change_detection(&self) -> ChangeDetection {
        match self {
            Self::None | Self::Poll(_) => ChangeDetection::Metadata,
            Self::Explicit { .. } => ChangeDetection::Content,
        }
    }
}

/// Condition for the server's readiness (`--strict-readiness`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadinessPolicy {
    /// Every model version that should serve does serve.
    Strict,
    /// The initial loads have ended, successfully or not.
    Lenient,
}

/// Handling of incomplete configurations (`--disable-auto-complete-config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AutoComplete {
    /// Missing parts of a configuration are inferred from the model.
    On,
    /// A model without a configuration file is refused.
    Off,
}

/// The options of the command line that concern the repository.
#[derive(Clone, Debug)]
pub(crate) struct RepositoryOptions {
    /// `--model-control-mode`, with the flags that belong to the mode.
    pub control: ControlMode,
    pub readiness: ReadinessPolicy,
    /// Model versions that load at the same time (`--model-load-thread-count`).
    pub load_threads: NonZeroUsize,
    /// Retries of a failed load (`--model-load-retry-count`).
    pub retries: u32,
    pub auto_complete: AutoComplete,
    /// Base name of an alternative configuration: `k` selects `configs/k.pbtxt` of models that have this file
    /// (`--model-config-name`).
    pub config_name: Option<String>,
    /// File with a request that the only model answers (`--example`).
    pub example: Option<PathBuf>,
    /// Limit on the total size of the `file:` parameters of one load, in bytes.
    pub max_upload: usize,
    /// Time in which a replaced or unloaded version must answer its accepted requests.
    pub retire_limit: Duration,
    /// Repositories whose copies are among the paths.
    pub remotes: Vec<Arc<dyn RemoteRepository>>,
}

/// Parameters of a load call.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadOptions {
    /// A JSON configuration that replaces the model's own.
    pub config: Option<String>,
    /// Files that replace the repository's: `file:<version>/<file>` (the prefix is optional) and the content.
    pub files: Vec<(String, Bytes)>,
}

/// The versions that [`index`](crate::repository::Repository::index) lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexFilter {
    /// Every known model, loaded or not.
    All,
    /// Versions that accept requests.
    Ready,
}

/// Repository paths, and the options for reading them.
#[derive(Clone, Debug)]
pub(in crate::repository) struct ScanOptions {
    pub paths: Vec<PathBuf>,
    pub(crate) model_name: Option<String>,
    pub config_name: Option<String>,
    pub auto_complete: AutoComplete,
    pub change_detection: ChangeDetection,
    pub(crate) example: Option<PathBuf>,
}
