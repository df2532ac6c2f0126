//! Flags for models and their repository.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::values;
use crate::incoming::restriction::ControlRoutes;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Models")]
pub(super) struct ModelArgs {
    /// Path to serve: a model file, a directory with config.pbtxt or numeric versions, a directory with model.pt, or a
    /// directory of such directories; or s3://, gs://, as:// or hf:// with a directory for each model. Repeatable
    #[arg(long, alias = "model-store", value_name = "PATH")]
    pub(super) model_repository: Vec<PathBuf>,
    /// Directory for copies of the models of s3://, gs://, as:// and hf://, kept for later starts; each process needs
    /// its own [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(super) model_repository_cache: Option<PathBuf>,
    /// Name of the model if --model-repository holds exactly one; the model also answers to its original name
    #[arg(long, value_name = "NAME")]
    pub(super) model_name: Option<String>,
    /// Loading of models: none = all at start; explicit = those of --load-model at start, then on API calls; poll = all
    /// at start, and again when the repository changes
    #[arg(long, value_enum, default_value = "none", value_name = "MODE")]
    pub(super) model_control_mode: ModeFlag,
    /// Calls to load and unload models, register shared memory and change trace and log settings: open = allowed;
    /// closed = refused, as in a replica that a platform manages
    #[arg(long, env = "WEIR_CONTROL_ROUTES", value_enum, default_value = "open", value_name = "USE")]
    pub(super) control_routes: ControlRoutes,
    /// Time between two scans of the repository in mode poll
    #[arg(long, default_value = "15", value_name = "SECONDS", value_parser = values::seconds)]
    pub(super) repository_poll_secs: Duration,
    /// Model to load at start in mode explicit; * means all. Repeatable
    #[arg(long, value_name = "NAME")]
    pub(super) load_model: Vec<String>,
    /// Use a model's configs/NAME.pbtxt, if it has one, instead of its config.pbtxt
    #[arg(long, value_name = "NAME")]
    pub(super) model_config_name: Option<String>,
    /// Models to load at the same time
    #[arg(long, default_value = "4", value_name = "N", value_parser = values::count::<NonZeroUsize>)]
    pub(super) model_load_thread_count: NonZeroUsize,
    /// Retries of a failed load
    #[arg(long, default_value = "0", value_name = "N", value_parser = values::count::<u32>)]
    pub(super) model_load_retry_count: u32,
    /// Require a complete config.pbtxt and infer nothing from the model
    #[arg(long)]
    pub(super) disable_auto_complete_config: bool,
    /// Old form of --disable-auto-complete-config
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL",
          value_parser = values::switch)]
    pub(super) strict_model_config: Option<bool>,
    /// Report readiness only while every model is ready
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) strict_readiness: bool,
    /// Exit if a model cannot be loaded at start
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) exit_on_error: bool,
    /// JSON file with a request that the only model answers: names, datatypes and shapes that the model's configuration
    /// leaves out are taken from the request, as from an example.json beside the model
    #[arg(long, value_name = "FILE")]
    pub(super) example: Option<PathBuf>,
    /// Handling of a model whose configuration contradicts the inputs or outputs of its trial runs: refuse = fail the
    /// load; allow = serve the model and log the reason
    #[arg(long, value_enum, default_value = "refuse", value_name = "MODE")]
    pub(super) warm_up_failures: WarmUpFlag,
    /// Operators that models may call although the server cannot check their operands, as names separated by commas, or
    /// all. A request to such a model may end the process, or read and write memory out of bounds. Repeatable
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = operator)]
    pub(super) allow_unguarded_operators: Vec<String>,
    /// Models that contain code: allow = loaded; forbid = refused, so that only formats that are data are loaded, such
    /// as .pt2 files of torch.export.save. TorchScript, AOTInductor packages and libraries with operators are code
    #[arg(long, env = "WEIR_MODEL_CODE", value_enum, default_value = "allow", value_name = "USE")]
    pub(super) model_code: CodeFlag,
    /// A setting of a backend, as BACKEND,KEY=VALUE, or of all backends, as ,KEY=VALUE. It has no effect, and a line in
    /// the log notes that. Repeatable
    #[arg(long, value_name = "SETTING", value_parser = backend_setting)]
    pub(super) backend_config: Vec<BackendSetting>,
    /// Name of the server in its metadata
    #[arg(long, default_value = "triton", value_name = "NAME")]
    pub(super) id: String,
}

/// The values of `--model-control-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ModeFlag {
    None,
    Explicit,
    Poll,
}

/// The values of `--warm-up-failures`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum WarmUpFlag {
    Refuse,
    Allow,
}

/// The values of `--model-code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum CodeFlag {
    Allow,
    Forbid,
}

/// The value of one `--backend-config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackendSetting {
    /// Name of the backend; empty for all backends.
    pub(super) backend: String,
    pub(super) key: String,
    pub(super) value: String,
}

/// Value of `--allow-unguarded-operators` that allows all operators.
pub(super) const ALL_OPERATORS: &str = "all";

fn operator(text: &str) -> Result<String, String> {
    let is_name = text.split_once("::").is_some_and(|(library, name)| !library.is_empty() && !name.is_empty());
    if is_name || text == ALL_OPERATORS {
        Ok(text.to_owned())
    } else {
        Err("expected the name of an operator with its library, such as aten::add, or all".to_owned())
    }
}

fn backend_setting(text: &str) -> Result<BackendSetting, String> {
    let (backend, setting) = text.split_once(',').unwrap_or(("", text));
    let (key, value) = values::pair(setting).map_err(|_| "expected BACKEND,KEY=VALUE or ,KEY=VALUE".to_owned())?;
    Ok(BackendSetting { backend: backend.to_owned(), key, value })
}
