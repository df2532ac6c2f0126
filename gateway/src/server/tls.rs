//! The beginning of an encrypted connection.

use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use weir_ops::socket::{GRACE, Stream};

/// Shakes hands; nothing if that fails, takes too long, or the gateway ends meanwhile.
pub(super) async fn shake_hands(
    stream: Stream,
    config: &Arc<ServerConfig>,
    timeout: Duration,
    stop: &CancellationToken,
) -> Option<TlsStream<Stream>> {
    let handshake = TlsAcceptor::from(Arc::clone(config)).accept(stream);
    let because = tokio::select! {
        shaken = handshake => match shaken {
            Ok(stream) => return Some(stream),
            Err(error) => error.to_string(),
        },
        () = tokio::time::sleep(timeout) => format!("it took longer than {timeout:?}"),
        () = ending(stop) => "the gateway ends".to_owned(),
    };
    tracing::debug!("no TLS handshake with a client: {because}");
    None
}

/// As long as anybody is waited for at the end who has not asked for anything yet.
async fn ending(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(GRACE).await;
}
