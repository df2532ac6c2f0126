//! A connection's life: until it ends, is of no use, or the port closes.

use std::pin::Pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Traffic;

/// Bounds of a connection's life.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime<'a> {
    /// Longest time without a request.
    pub idle: Duration,
    /// Cancelled when the port closes.
    pub stop: &'a CancellationToken,
}

/// Serves a connection until it ends, has had no request for too long, or the port closes; then `shut_down` begins its
/// graceful shutdown, which [`close`] waits for.
///
/// # Errors
/// The connection's own.
pub async fn serve<C, E>(
    mut connection: Pin<&mut C>,
    shut_down: impl FnOnce(Pin<&mut C>),
    traffic: &Traffic,
    lifetime: Lifetime<'_>,
) -> Result<(), E>
where
    C: Future<Output = Result<(), E>>,
{
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = traffic.unused(lifetime.idle) => {}
        () = lifetime.stop.cancelled() => {}
    }
    shut_down(connection.as_mut());
    close(connection, traffic).await
}

/// Waits for a connection whose graceful shutdown has begun: requests in flight are answered; a client that has
/// not completed a request within seconds is not waited for. `connection` is then dropped, which closes it.
///
/// # Errors
/// The connection's own.
pub async fn close<E>(
    connection: impl Future<Output = Result<(), E>>,
    traffic: &Traffic,
) -> Result<(), E> {
    tokio::select! {
        ended = connection => ended,
        () = traffic.ended() => Ok(()),
    }
}
