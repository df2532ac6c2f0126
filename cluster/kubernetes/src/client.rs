//! The client of the API server that this process is to use.

use kube::{Client, Config};
use weir_cluster::ClusterError;

/// A client by the pod's service account, else by `KUBECONFIG`, else by `~/.kube/config`.
///
/// # Errors
/// [`ClusterError::Unavailable`] when none of them can be read.
pub async fn client() -> Result<Client, ClusterError> {
    let config = Config::infer().await.map_err(|error| {
        // As text: the message repeats those of its sources, which the caller would print after it.
        let text = format!(
            "{error}. Run it in a pod with a service account, or set KUBECONFIG to the path of a kubeconfig; \
             `weir up` needs no cluster"
        );
        unavailable(text.into())
    })?;
    Client::try_from(config).map_err(|error| unavailable(error.into()))
}

fn unavailable(source: Box<dyn std::error::Error + Send + Sync>) -> ClusterError {
    ClusterError::Unavailable {
        what: "a Kubernetes cluster".to_owned(),
        source,
    }
}
