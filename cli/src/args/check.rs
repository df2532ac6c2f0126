//! The flags of `weir check`.

use std::path::PathBuf;

use super::domain::domain;

const NOTES: &str = "\
Examples:
  Before a commit, or in CI:
    weir check -f services/

Reports the errors of all files in one pass, one per line, as FILE:LINE:COLUMN: FIELD: MESSAGE:
those that `weir up` would report, models that are missing or that weir-runtime would refuse, and
services whose commands listen on the same port. Notes name fields that are accepted but have no
effect on this machine. The check opens no port and uses no state directory, so it can run while
`weir up` runs.

With `--for kubernetes` it reports what a cluster would refuse. Models may then be in volumes and
buckets, and runtimes that the files do not declare may be there.

With `--online` the models of buckets, hubs, registries and web servers are looked for, without a
download: the files are listed, and one is opened, with the credentials of this machine, which may
differ from those of the cluster.

Exit code: 0 if everything can be served, 1 if weir-runtime is not installed, 2 if there are
errors.";

/// Reports what `weir up` would report about the files, without running anything.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct CheckArgs {
    /// File or folder with YAML of InferenceServices and ServingRuntimes, or - for standard input; repeatable.
    #[arg(short = 'f', long = "file", value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Platform on which the services will run.
    #[arg(long = "for", value_enum, value_name = "PLACE", default_value_t)]
    pub(crate) place: CheckTarget,

    /// Look for the models of buckets, hubs, registries and web servers, with the credentials of this machine.
    #[arg(long)]
    pub(crate) online: bool,

    /// Path of the program weir-runtime [default: the one in the same folder as weir, else the one in PATH].
    #[arg(long, value_name = "PATH")]
    pub(crate) runtime: Option<PathBuf>,

    /// Domain of the service hosts NAME-NAMESPACE.DOMAIN.
    #[arg(long, default_value = "example.com", value_parser = domain)]
    pub(crate) domain: String,
}

/// Platform for which services are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CheckTarget {
    /// This machine, by `weir up`.
    #[default]
    Local,
    /// A Kubernetes cluster with Weir.
    Kubernetes,
}
