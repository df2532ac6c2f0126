//! The flags of `weir logs`.

use std::path::PathBuf;

const NOTES: &str = "\
Examples:
    weir logs digits                 all output of its replicas
    weir logs digits -f              the same, then new output until Ctrl-C
    weir logs team-a/digits --tail 20

Each line begins with the name of its replica. A replica's log continues over restarts and remains
after `weir up` ends. While `weir up` runs, logs of earlier runs are left out if the service has
newer ones.";

/// Shows the output of a service's replicas.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct LogsArgs {
    /// Service, as NAME or NAMESPACE/NAME.
    pub(crate) service: String,

    /// Keep printing new output, also that of replicas that start later, until Ctrl-C.
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Begin with the last N lines of each replica [default: all lines].
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<usize>,

    /// State directory of the `weir up` whose logs to show [default: ~/.local/state/weir].
    #[arg(long, value_name = "DIR", env = "WEIR_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}
