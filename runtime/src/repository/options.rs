//! Options of the repository, as the command line gives them.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use super::stamp::Scrutiny;

/// When models are loaded (`--model-control-mode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ControlMode {
    /// The whole repository, once, at start.
    None,
    /// The models of `--load-model` at start (`*`: all), then those that clients ask for.
    Explicit {
        /// Models to load at start.
        load: Vec<String>,
    },
    /// The whole repository, scanned again each period.
    Poll(Duration),
}

impl ControlMode {
    /// How closely files are looked at for changes: a client's load reads them, whatever their times say.
    pub(super) const fn scrutiny(&self) -> Scrutiny {
        match self {
            Self::None | Self::Poll(_) => Scrutiny::Metadata,
            Self::Explicit { .. } => Scrutiny::Content,
        }
    }
}

/// Condition for the server's readiness (`--strict-readiness`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadinessPolicy {
    /// Every model version that should serve does.
    Strict,
    /// The initial loads are over, failed or not.
    Lenient,
}

/// Handling of incomplete configurations (`--disable-auto-complete-config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AutoComplete {
    /// Missing parts of a configuration are read from the model.
    On,
    /// A model without a configuration file is refused.
    Off,
}

/// The repository's part of the command line.
#[derive(Clone, Debug)]
pub(crate) struct RepositoryOptions {
    /// `--model-control-mode`, with the flags that belong to each mode.
    pub control: ControlMode,
    pub readiness: ReadinessPolicy,
    /// Model versions that load at the same time (`--model-load-thread-count`).
    pub load_threads: NonZeroUsize,
    /// Further attempts after a failed load (`--model-load-retry-count`).
    pub retries: u32,
    pub auto_complete: AutoComplete,
    /// `k` makes `configs/k.pbtxt` the configuration where a model has that file (`--model-config-name`).
    pub config_name: Option<String>,
    /// A request that the only model answers (`--example`).
    pub example: Option<PathBuf>,
    /// Limit on the `file:` parameters of one load, in bytes together.
    pub max_upload: usize,
    /// Time that a replaced or unloaded version has to answer its accepted requests.
    pub retire_limit: Duration,
}

/// Parameters of a load call.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadOptions {
    /// A configuration as JSON, in place of the model's own.
    pub config: Option<String>,
    /// Files in place of the repository's: `file:<version>/<file>` (the prefix may be missing) and content.
    pub files: Vec<(String, Bytes)>,
}

/// Which versions [`index`](super::Repository::index) lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexFilter {
    /// Every known model, loaded or not.
    All,
    /// Versions that accept requests.
    Ready,
}

/// Repository paths and the flags for reading them.
#[derive(Clone, Debug)]
pub(super) struct ScanOptions {
    pub paths: Vec<PathBuf>,
    pub(crate) model_name: Option<String>,
    pub config_name: Option<String>,
    pub auto_complete: AutoComplete,
    pub scrutiny: Scrutiny,
    pub(crate) example: Option<PathBuf>,
}
