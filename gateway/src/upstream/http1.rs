//! Pooled HTTP/1.1 connections.
//!
//! Whoever uses a connection also drives it: request, response and socket are worked on in one task, and
//! no other has to be woken on the way. A connection in the pool is driven by nobody; whether it still
//! lives is looked at when it is taken.
//!
//! ```text
//!   request ─► head, output ─► socket ─► head, framing ─► response
//! ```

mod connection;
mod framing;
mod head;
mod output;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use weir_cluster::Address;

use super::{Freshness, Upstream, UpstreamError, UpstreamErrorKind};
use crate::upstream::UpstreamRequest;
use connection::Connection;

/// Idle connections kept for one replica: as many as a busy replica has in flight.
const MAX_IDLE: usize = 256;

/// Common servers close idle connections after a minute; long before that nobody needs them.
const IDLE: Duration = Duration::from_secs(20);

/// The idle connections of one replica, the one used last at the end.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<(Instant, Box<Connection>)>>);

/// A response's body that still comes, on the connection that brings it.
pub(crate) struct Http1ResponseBody {
    connection: Box<Connection>,
    upstream: Arc<Upstream>,
}

impl Pool {
    fn take(&self) -> Option<Box<Connection>> {
        loop {
            let (_, mut connection) = self.0.lock().pop()?;
            if connection.is_reusable() {
                return Some(connection);
            }
        }
    }

    fn put(&self, connection: Box<Connection>, now: Instant) {
        let mut idle = self.0.lock();
        if idle.len() < MAX_IDLE {
            idle.push((now, connection));
        }
    }

    /// Closes those that were idle for long.
    pub(crate) fn trim(&self, now: Instant) {
        let mut idle = self.0.lock();
        let fresh = idle
            .iter()
            .position(|(since, _)| now.saturating_duration_since(*since) < IDLE);
        let old = fresh.unwrap_or(idle.len());
        let old: Vec<_> = idle.drain(..old).collect();
        // Closing takes a system call each.
        drop(idle);
        drop(old);
    }

    fn clear(&self) {
        let old = std::mem::take(&mut *self.0.lock());
        drop(old);
    }
}

/// Sends a request and waits for the head of its answer. A connection from the pool may have been closed
/// by its peer just now; the fault says so.
pub(super) async fn send<'a>(
    upstream: &Arc<Upstream>,
    address: &Address,
    freshness: Freshness,
    request: impl FnOnce() -> UpstreamRequest<'a>,
) -> Result<Response<Http1ResponseBody>, UpstreamError> {
    let pooled = match freshness {
        Freshness::Any => upstream.http1_pool.take(),
        Freshness::New => None,
    };
    let (mut connection, failure) = match pooled {
        Some(connection) => (connection, UpstreamErrorKind::StaleConnection),
        // Apart: most requests find a connection, and need not carry what making one needs.
        None => (
            Box::pin(Connection::open(address)).await?,
            UpstreamErrorKind::Broken,
        ),
    };
    connection.start(request());
    let head = poll_fn(|context| connection.poll_head(failure, context)).await;
    let head = head.inspect_err(|_| {
        if failure == UpstreamErrorKind::StaleConnection {
            // The others of its age are no better.
            upstream.http1_pool.clear();
        }
    })?;
    let upstream = Arc::clone(upstream);
    Ok(head.map(|()| Http1ResponseBody {
        connection,
        upstream,
    }))
}

impl Http1ResponseBody {
    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        self.connection.poll_frame(context)
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.connection.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.connection.size_hint()
    }

    /// The response was read to its end: the connection goes back to the pool if it can be used again.
    pub(crate) fn finish(mut self, now: Instant) {
        if self.connection.is_reusable() && !self.upstream.lost.is_cancelled() {
            self.upstream.http1_pool.put(self.connection, now);
        }
    }
}
