//! The client of the API server that this process is to use.

use std::time::Duration;

use kube::{Client, Config};
use weir_cluster::ClusterError;

/// Longest silence of a connection while an answer is awaited, so that none is awaited as long as TCP would. The longest
/// watch is of 290 s.
const LONGEST_SILENCE: Duration = Duration::from_secs(300);

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
    of(config)
}

/// A client that tells each failure at once. Whatever asks an API server has pauses of its own, those of watches at most
/// ten seconds; kube's, which double 15 times, would keep it blind for as long again as an API server was away.
fn of(mut config: Config) -> Result<Client, ClusterError> {
    config.default_retry = false;
    config.read_timeout = Some(LONGEST_SILENCE);
    // The time that a connection has rested before a request does not count.
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

    /// Answers as an API server that starts; counts what it is asked.
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
    async fn a_failure_is_told_at_once() {
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
