//! The flags of `weir status`.

use std::path::PathBuf;

const NOTES: &str = "\
Each line is a revision. READY is the service's condition; REPLICAS is ready/wanted, and 0/0 means that
the revision sleeps until a request arrives; QUEUE DELAY is the time that requests waited for a replica,
median and 99th percentile since the gateway started. Lines below the table say why a service is not
ready.

Exit code: 0 if every service is ready, 1 if one is not or no `weir up` answers.";

/// Shows what `weir up` on this machine serves.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct StatusArgs {
    /// State directory of the `weir up` to show [default: ~/.local/state/weir].
    #[arg(long, value_name = "DIR", env = "WEIR_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// Update every second until Ctrl-C.
    #[arg(long)]
    pub(crate) watch: bool,
}
