//! The connection to the API server.

use std::time::Duration;

use weir_cluster::ClusterError;
use weir_cluster_kubernetes::{Client, Kubernetes, Options};
use weir_ops::drain::Drain;

use crate::args::ProcessArgs;
use crate::error::{CliError, with_sources};

/// Pause between two attempts while the API server is unavailable.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// The connected cluster and the client of its API server.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) cluster: Kubernetes,
}

/// Returns the cluster settings of a process with this name.
pub(super) fn options(args: &ProcessArgs, name: &str) -> Options {
    Options {
        namespace: args.namespace.clone(),
        domain: args.domain.clone(),
        cluster_domain: args.cluster_domain.clone(),
        watched: args.watch_namespace.clone(),
        process: name.to_owned(),
        ..Options::default()
    }
}

/// Connects, and retries until it succeeds; `None` if the process begins to drain before.
///
/// # Errors
/// [`CliError::Cluster`] when no API server is configured.
pub(super) async fn connect(options: Options, drain: &Drain) -> Result<Option<Connected>, CliError> {
    let client = weir_cluster_kubernetes::client().await?;
    let connecting = retried("the cluster", || Kubernetes::connect(client.clone(), options.clone()));
    let connected = drain.begun().run_until_cancelled(connecting).await;
    Ok(connected.map(|cluster| Connected { client, cluster }))
}

/// Calls `attempt` until it succeeds; `what` names the target in the log.
pub(super) async fn retried<T, F: Future<Output = Result<T, ClusterError>>>(what: &str, attempt: impl Fn() -> F) -> T {
    loop {
        match attempt().await {
            Ok(done) => return done,
            Err(error) => tracing::warn!("cannot watch {what}: {}; trying again", with_sources(&error)),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}
