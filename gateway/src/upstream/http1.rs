//! Pooled HTTP/1.1 connections.
//!
//! The task of a request also drives its connection, so that no other task has to be woken on the way. No task drives
//! an idle connection; the pool checks that a connection is still open when a request takes it.
//!
//! ```text
//!   request ─► head, writer ─► socket ─► head, framing ─► response
//! ```

mod connection;
mod framing;
#[cfg(test)]
mod fuzz;
mod head;
mod writer;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

use super::dial::Dialing;
use super::{Freshness, SwitchedConnection, Upstream, UpstreamError, UpstreamErrorKind};
use crate::upstream::UpstreamRequest;
use connection::UpstreamConnection;

/// Maximum number of idle connections per upstream: as many as a busy replica has requests in flight.
const MAX_IDLE: usize = 256;

/// Longest idle time of a connection. Common servers close theirs after a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Idle connections of one upstream.
#[derive(Default)]
pub(crate) struct Http1Pool(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    /// Connections with the time since which they are idle, the most recently used one last.
    connections: Vec<(Instant, Box<UpstreamConnection>)>,
    /// Set once the upstream ends, so that it keeps no idle connection.
    is_closed: bool,
}

/// A response body, and the connection from which it is read.
pub(crate) struct Http1ResponseBody {
    connection: Box<UpstreamConnection>,
    upstream: Arc<Upstream>,
}

impl Http1Pool {
    /// Takes a connection that was opened with this generation of certificates.
    fn take(&self, generation: u64) -> Option<Box<UpstreamConnection>> {
        loop {
            let (_, mut connection) = self.0.lock().connections.pop()?;
            if connection.generation == generation && connection.is_reusable() {
                return Some(connection);
            }
        }
    }

    fn put(&self, connection: Box<UpstreamConnection>, now: Instant) {
        let mut idle = self.0.lock();
        if !idle.is_closed && idle.connections.len() < MAX_IDLE {
            idle.connections.push((now, connection));
        }
    }

    /// Closes connections that have been idle for [`IDLE_TIMEOUT`].
    pub(crate) fn trim(&self, now: Instant) {
        let mut idle = self.0.lock();
        let connections = &mut idle.connections;
        let fresh = connections.iter().position(|(since, _)| now.saturating_duration_since(*since) < IDLE_TIMEOUT);
        let old = fresh.unwrap_or(connections.len());
        let old: Vec<_> = connections.drain(..old).collect();
        // The connections are closed without the lock, because each close is a system call.
        drop(idle);
        drop(old);
    }

    pub(crate) fn clear(&self) {
        let old = std::mem::take(&mut self.0.lock().connections);
        drop(old);
    }

    /// Closes all idle connections, and others once they become idle. Servers such as Triton end only after their
    /// clients have closed their connections.
    pub(crate) fn close(&self) {
        self.0.lock().is_closed = true;
        self.clear();
    }
}

/// Sends a request and waits for the response's head. If the peer had closed a pooled connection, the error's kind is
/// `StaleConnection`.
pub(super) async fn send<'a>(
    upstream: &Arc<Upstream>,
    dialing: Dialing<'_>,
    freshness: Freshness,
    request: impl FnOnce() -> UpstreamRequest<'a>,
) -> Result<Response<Http1ResponseBody>, UpstreamError> {
    let pooled = match freshness {
        Freshness::Any => upstream.http1_pool.take(dialing.generation()),
        Freshness::New | Freshness::Own => None,
    };
    let (mut connection, failure) = match pooled {
        Some(connection) => (connection, UpstreamErrorKind::StaleConnection),
        // Boxed: most requests find a pooled connection and should not reserve space for connecting.
        None => (Box::pin(UpstreamConnection::open(dialing)).await?, UpstreamErrorKind::Broken),
    };
    connection.start(request());
    let head = poll_fn(|context| connection.poll_head(failure, context)).await;
    let head = head.inspect_err(|_| {
        if failure == UpstreamErrorKind::StaleConnection {
            // The other pooled connections are as old and probably closed too.
            upstream.http1_pool.clear();
        }
    })?;
    let upstream = Arc::clone(upstream);
    Ok(head.map(|()| Http1ResponseBody { connection, upstream }))
}

impl Http1ResponseBody {
    pub(crate) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        self.connection.poll_frame(context)
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.connection.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.connection.size_hint()
    }

    /// Returns the connection after a response with status 101.
    pub(crate) fn into_switched(self) -> SwitchedConnection {
        self.connection.into_switched()
    }

    /// Returns the connection to the pool, if the response was read to its end and the connection can be used again.
    pub(crate) fn finish(mut self, now: Instant) {
        if self.connection.is_reusable() && !self.upstream.lost.is_cancelled() {
            self.upstream.http1_pool.put(self.connection, now);
        }
    }
}
