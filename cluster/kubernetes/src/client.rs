//! Client of the API server that this process uses.

use std::time::Duration;

use kube::{Client, Config};
use weir_cluster::ClusterError;

/// Longest silence of a connection that awaits an answer, so that a dead connection is noticed before TCP gives up. The
/// limit exceeds the longest watches, which end after kube's default of 290 s.
const LONGEST_SILENCE: Duration = Duration::from_secs(300);

/// Returns a client that uses the pod's service account, else `KUBECONFIG`, else `~/.kube/config`.
///
/// # Errors
/// [`ClusterError::Unavailable`] when none of them can be read.
pub async fn client() -> Result<Client, ClusterError> {
    let config = Config::infer().await.map_err(|error| {
        // The error is passed on as text: it contains the messages of its sources, which the caller would print again.
        let text = format!(
            "{error}. Run this in a pod with a service account, or set KUBECONFIG to the path of a kubeconfig; \
             `weir up` needs no cluster"
        );
        unavailable(text.into())
    })?;
    of(config)
}

/// Returns a client that reports each failure at once, without retries of its own. Every caller has its own backoff;
/// that of this crate's watches is at most ten seconds. kube's default backoff doubles 15 times, so after an outage of
/// the API server Weir would stay blind for as long as the outage lasted.
fn of(mut config: Config) -> Result<Client, ClusterError> {
    config.default_retry = false;
    config.read_timeout = Some(LONGEST_SILENCE);
    // Idle time of a connection before a request does not count as silence.
    config.reset_reader_on_write = true;
    Client::try_from(config).map_err(|error| unavailable(error.into()))
}

fn unavailable(source: Box<dyn std::error::Error + Send + Sync>) -> ClusterError {
    ClusterError::Unavailable { what: "a Kubernetes cluster".to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

    /// Answers 503 like an API server that is starting, and counts the requests.
    async fn be_busy(listener: TcpListener, asked: Arc<AtomicUsize>) {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            let length = connection.read(&mut head).await.unwrap();
            if length == 0 {
                continue;
            }
            asked.fetch_add(1, Ordering::Relaxed);
            connection.write_all(BUSY).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_failure_is_returned_without_a_retry() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<AtomicUsize>::default();
        tokio::spawn(be_busy(listener, asked.clone()));
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let version = of(config).unwrap().apiserver_version().await;
        assert!(version.is_err(), "{version:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
