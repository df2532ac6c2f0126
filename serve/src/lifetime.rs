//! Serves a connection until it ends, has been idle for too long, or the port closes.

use std::pin::Pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::Traffic;

/// Limits on a connection's lifetime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime<'a> {
    /// Longest time without a request.
    pub(crate) idle: Duration,
    /// Token that is cancelled when the port closes.
    pub(crate) stop: &'a CancellationToken,
    /// Time after `stop` in which requests are still accepted: [`LATE_REQUESTS`] over HTTP/1.1. It is zero over HTTP/2,
    /// whose GOAWAY frames lose no request.
    pub(crate) late_requests: Duration,
}

/// Time for which an HTTP/1.1 connection accepts requests after its port has closed. These requests are on their way,
/// or unread on this machine, because their clients sent them before they could see the close. The time is twice the
/// network latency to the antipodes.
pub(crate) const LATE_REQUESTS: Duration = Duration::from_millis(250);

/// Serves a connection until it ends, has been without a request for too long, is retired, or the port has closed and
/// late requests have arrived. In all cases but the first, `shut_down` begins the graceful shutdown, and [`close`]
/// completes it.
///
/// # Errors
/// Fails with the connection's error.
pub(crate) async fn serve<C, E>(
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
        () = traffic.retired() => {}
        () = closed(lifetime.stop, lifetime.late_requests) => {}
    }
    shut_down(connection.as_mut());
    close(connection, traffic).await
}

/// Waits until the port has closed, and then for requests that are on their way.
pub(crate) async fn closed(stop: &CancellationToken, late_requests: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(late_requests).await;
}

/// Waits for a connection whose graceful shutdown has begun. Requests in flight are answered. Once there has been none
/// for [`GRACE`](crate::traffic::GRACE), `connection` is dropped, which closes it even if a request head has arrived in
/// part.
///
/// # Errors
/// Fails with the connection's error.
pub(crate) async fn close<E>(connection: impl Future<Output = Result<(), E>>, traffic: &Traffic) -> Result<(), E> {
    tokio::select! {
        ended = connection => ended,
        () = traffic.ended() => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_shutdown_begins_after_the_time_for_late_requests() {
        for late_requests in [Duration::ZERO, LATE_REQUESTS] {
            let (traffic, stop) = (Traffic::default(), CancellationToken::new());
            stop.cancel();
            let lifetime = Lifetime { idle: Duration::from_secs(75), stop: &stop, late_requests };
            let (begun, mut waited) = (crate::clock::now(), None);
            let connection = pin!(std::future::pending::<Result<(), ()>>());
            serve(connection, |_| waited = Some(begun.elapsed()), &traffic, lifetime).await.unwrap();
            let waited = waited.unwrap();
            let moment = Duration::from_millis(5);
            let is_right = (late_requests..late_requests + moment).contains(&waited);
            assert!(is_right, "{waited:?} of {late_requests:?}");
        }
    }
}
