//! The flags of `weir logs`.

use std::path::PathBuf;

const NOTES: &str = "\
Examples:
    weir logs digits                 what its replicas have printed
    weir logs digits -f              and what they print from now on, until Ctrl-C
    weir logs team-a/digits --tail 20

Each line begins with the name of its replica. A replica's log goes on over restarts and stays when
`weir up` has ended. While a `weir up` runs, logs from before it are left out where the service has
newer ones.";

/// Shows what the replicas of a service have printed.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct LogsArgs {
    /// Service, as NAME or NAMESPACE/NAME.
    pub(crate) service: String,

    /// Go on with what is printed from now on, by replicas that are started later too.
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Begin with the last N lines of each replica.
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<usize>,

    /// State directory of the `weir up` whose logs to show [default: ~/.local/state/weir].
    #[arg(long, value_name = "DIR", env = "WEIR_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}
