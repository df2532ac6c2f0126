//! The flags of `weir status`.

use std::path::PathBuf;

const NOTES: &str = "\
Each line is a revision. READY is the service's condition. REPLICAS is ready/desired; 0/0 means that
the revision sleeps until a request arrives. QUEUE DELAY is the time that requests waited for a
replica, median and 99th percentile since the gateway started. Lines below the table say why a
service is not ready, and note fields without effect here, the stage of a rollout or why it was
rolled back, and restarts of replicas. With -o wide, IN TIME is the share of requests that waited no
longer than the service's queue delay, and IDLE is at least the share of replica time without a
request.

Examples:
    weir status --watch              refresh it every second
    weir status -o wide              with more columns: requests, failures, restarts, idle time
    weir status -o json              the whole status, for programs

Exit codes: 0 every service is ready and no revision with desired replicas fails; 1 otherwise, or
if no `weir up` answers.";

/// Shows the services that `weir up` on this machine serves.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct StatusArgs {
    /// State directory of the `weir up` to show [default: ~/.local/state/weir].
    #[arg(long, value_name = "DIR", env = "WEIR_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Format of the output.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: OutputFormat,

    /// Same as -o json.
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,

    /// Refresh every second until Ctrl-C.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Formats of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    /// A table, with messages below it.
    Table,
    /// The table with more columns.
    Wide,
    /// The whole status as JSON, for programs.
    Json,
}

impl StatusArgs {
    /// Returns the output format; `--json` takes precedence over the default of `--output`.
    pub(crate) fn format(&self) -> OutputFormat {
        if self.json { OutputFormat::Json } else { self.output }
    }
}
