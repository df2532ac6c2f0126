//! What the flags say of the repository.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

/// Who decides which models are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlMode {
    /// Everything in the repository, once, at start.
    None,
    /// What `--load-model` names at start (`*`: everything), then what clients ask for.
    Explicit {
        /// Models to load at start.
        load: Vec<String>,
    },
    /// The repository, looked at again each period.
    Poll(Duration),
}

/// What the server's readiness demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Every model version that should serve does (`--strict-readiness=true`).
    Strict,
    /// The initial loads are over, whatever came of them.
    Lenient,
}

/// Whether a model may come without a complete configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autocomplete {
    /// What the configuration leaves out is found out from the model.
    On,
    /// A model without a configuration file is refused (`--disable-auto-complete-config`).
    Off,
}

/// The repository's part of the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--model-control-mode`, with the flags that belong to each mode.
    pub control: ControlMode,
    /// `--strict-readiness`.
    pub readiness: Readiness,
    /// How many model versions load at the same time (`--model-load-thread-count`).
    pub load_threads: NonZeroUsize,
    /// How often a failed load is tried again (`--model-load-retry-count`).
    pub retries: u32,
    /// Whether configurations may be incomplete.
    pub autocomplete: Autocomplete,
    /// `k` makes `configs/k.pbtxt` the configuration where a model has that file (`--model-config-name`).
    pub config_name: Option<String>,
    /// The most bytes that one load may bring as `file:` parameters.
    pub max_upload: usize,
    /// How long a version that was replaced or unloaded may take to answer what it had accepted.
    pub retire_limit: Duration,
}

/// What a load call brings beside the name.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// A configuration as JSON, in place of the model's own.
    pub config: Option<String>,
    /// Files in place of the repository's: `file:<version>/<file>` (the prefix may be missing) and content.
    pub files: Vec<(String, Bytes)>,
}

/// What becomes of models that only an unloaded one used. There are no ensembles, so nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// They stay.
    Keep,
    /// They go too.
    Unload,
}

/// Which versions [`index`](super::Repository::index) lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Every model that is known, loaded or not.
    All,
    /// Versions that answer requests.
    Ready,
}

/// Where to look for models, and how to read what lies there.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// `--model-repository`, each.
    pub paths: Vec<PathBuf>,
    /// `--model-name`.
    pub model_name: Option<String>,
    /// `--model-config-name`.
    pub config_name: Option<String>,
    /// Whether a configuration file is compulsory.
    pub autocomplete: Autocomplete,
}
