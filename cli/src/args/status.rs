//! The flags of `weir status`.

use std::path::PathBuf;

const NOTES: &str = "\
One line for each revision. READY is the service's condition; REPLICAS is ready/wanted, and 0/0 a
revision that sleeps until a request comes; QUEUE DELAY is how long requests waited for a replica, the
median and the 99th percentile since the gateway began. Below stands why a service is not ready.

Exit code 0 when every service is ready, 1 when one is not or no `weir up` answers.";

/// Shows what a `weir up` on this machine serves.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct StatusArgs {
    /// The state directory of that `weir up` [default: ~/.local/state/weir].
    #[arg(long, value_name = "DIR", env = "WEIR_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// Look each second, and print what has changed, until Ctrl-C.
    #[arg(long)]
    pub(crate) watch: bool,
}
