//! TLS of a new connection: its handshake, and the clients that may connect.

mod clients;

use std::sync::Arc;
use std::time::Duration;

use crate::stream::Stream;
use crate::traffic::GRACE;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

pub use clients::CheckedClients;

/// Performs the TLS handshake; `None` if it fails, times out, or the port closes meanwhile.
pub async fn handshake(
    stream: Stream,
    config: Arc<ServerConfig>,
    timeout: Duration,
    stop: &CancellationToken,
) -> Option<TlsStream<Stream>> {
    let handshake = TlsAcceptor::from(config).accept(stream);
    let reason = tokio::select! {
        accepted = handshake => match accepted {
            Ok(stream) => return Some(stream),
            Err(error) => error.to_string(),
        },
        () = tokio::time::sleep(timeout) => format!("timed out after {timeout:?}"),
        () = grace_over(stop) => "the port closes".to_owned(),
    };
    tracing::debug!("TLS handshake with a client failed: {reason}");
    None
}

/// Waits for the shutdown and then for [`GRACE`], the time that a port leaves to clients without an open request.
async fn grace_over(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(GRACE).await;
}
