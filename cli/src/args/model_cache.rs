//! The flags of `weir model-cache`.

use std::net::IpAddr;
use std::path::PathBuf;

use super::kubernetes::ProcessArgs;

const NOTES: &str = "\
A DaemonSet of the Helm chart runs it (modelCache.enabled), with a directory of the node. Init
containers of the node's pods read models from it, and store those that they have downloaded. A
client proves its namespace by a token of its ServiceAccount, which the API server reviews, and
gets only models that pods of the same namespace have stored.

See docs/storage.md.";

/// Keeps the models that pods of this node have downloaded, for other pods of the same namespace.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct ModelCacheArgs {
    /// Directory of the models, which no other process uses; created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/weir/model-cache")]
    pub(crate) directory: PathBuf,

    /// Maximum size of all models on disk, in bytes. Above it, the least recently used models of the namespace with the
    /// most bytes are removed.
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 30)]
    pub(crate) max_bytes: u64,

    /// Port for requests of pods; 0 chooses a free one.
    #[arg(long, value_name = "PORT", default_value_t = 8082)]
    pub(crate) port: u16,

    /// Port for /metrics, /health and /ready; 0 chooses a free one.
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    pub(crate) admin_port: u16,

    /// File with one bearer token in each line. Requests from other pods to --admin-port need one of them, except for
    /// /health and /ready. The process reads the file again when it changes [default: no token is needed].
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// IP address on which both ports listen.
    #[arg(long, default_value = "0.0.0.0")]
    pub(crate) address: IpAddr,

    /// Log more: -v adds debug messages.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl ModelCacheArgs {
    /// Returns the flags that this process shares with the other ones on Kubernetes. It has no use for the rest.
    pub(crate) fn process(&self) -> ProcessArgs {
        ProcessArgs {
            admin_port: self.admin_port,
            admin_token_file: self.admin_token_file.clone(),
            address: self.address,
            namespace: String::new(),
            name: None,
            watch_namespace: None,
            domain: String::new(),
            cluster_domain: String::new(),
            verbose: self.verbose,
        }
    }
}
