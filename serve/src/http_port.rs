//! An HTTP port: the settings and the shutdown that all of its connections share.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accept::Acceptor;
use crate::bounds::http2_limits::{Http2Limits, MAX_CONTROL_HEAD};
use crate::bounds::limits::ConnectionLimits;
use crate::clock;
use crate::failure_log::FailureLog;
use crate::http2::streams::StreamExecutor;
use crate::lifetime::Lifetime;
use crate::stream::Stream;

/// A port that serves HTTP/1.1 and HTTP/2. Clones share its settings and its connections.
#[derive(Clone, Debug)]
pub struct HttpPort(Arc<Shared>);

/// Settings of a port.
#[derive(Clone, Copy, Debug)]
pub struct HttpOptions {
    /// Limits on connections, and on the waits for their clients.
    pub connections: ConnectionLimits,
    /// Use of HTTP/1.1 on the port.
    pub http1: Http1Use,
    /// Limits of HTTP/2 on the port.
    pub http2: Http2Limits,
}

/// Use of HTTP/1.1 on a port.
#[derive(Clone, Copy, Debug)]
pub enum Http1Use {
    /// The port serves HTTP/1.1.
    Served {
        /// Longest request head in bytes. A longer one is refused with status 414 or 431 and a JSON body if it is the
        /// first of its connection or follows a pause, and otherwise with status 431 and no body.
        max_head: usize,
        /// Maximum number of bytes read at once.
        read_at_once: usize,
    },
    /// The port serves HTTP/2 only. An HTTP/1.1 client gets status 415 and this sentence, which must need no escapes in
    /// JSON.
    Refused(&'static str),
}

impl HttpOptions {
    /// Returns the options of a port for operators and other programs: admin pages, metric scrapes, watches, webhooks.
    #[must_use]
    pub const fn control(connections: ConnectionLimits, max_streams: u32) -> Self {
        let max_head = MAX_CONTROL_HEAD as usize;
        let http1 = Http1Use::Served { max_head, read_at_once: max_head };
        Self { connections, http1, http2: Http2Limits::control(max_streams) }
    }
}

#[derive(Debug)]
struct Shared {
    options: HttpOptions,
    /// Tasks of the connections and of their HTTP/2 streams.
    tasks: TaskTracker,
    streams: StreamExecutor,
    /// Cancelled when the port closes.
    stop: CancellationToken,
    /// Log of requests that were refused before they were read, at most one line a minute for each cause.
    refusals: Mutex<FailureLog>,
}

impl HttpPort {
    /// Returns a port that closes when `stop` is cancelled.
    #[must_use]
    pub fn new(options: HttpOptions, stop: CancellationToken) -> Self {
        let tasks = TaskTracker::new();
        let streams = StreamExecutor::new(tasks.clone(), &options.connections);
        Self(Arc::new(Shared { options, tasks, streams, stop, refusals: Mutex::default() }))
    }

    /// Accepts connections until the port closes. Spawns the future that `connection` returns for each of them as a
    /// task.
    pub async fn accept<C>(&self, listener: TcpListener, connection: impl FnMut(Stream) -> C)
    where
        C: Future<Output: Send> + Send + 'static,
    {
        let acceptor = Acceptor::new(listener, self.0.options.connections, self.0.stop.clone());
        acceptor.spawn_all(&self.0.tasks, connection).await;
    }

    /// Waits until all connections have ended, which happens soon after the port has closed.
    pub async fn ended(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Returns the token that is cancelled to close the port.
    #[must_use]
    pub fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    pub(crate) fn options(&self) -> &HttpOptions {
        &self.0.options
    }

    pub(crate) fn streams(&self) -> &StreamExecutor {
        &self.0.streams
    }

    /// Returns the time by which the request head that the server waits for from now on must be complete.
    pub(crate) fn head_deadline(&self) -> Instant {
        clock::now() + self.0.options.connections.idle
    }

    /// Returns the time by which a new connection must have sent enough bytes to distinguish HTTP/1.1 from HTTP/2. It
    /// is the deadline of its first head, or the maximum age of connections if that is earlier.
    pub(crate) fn protocol_deadline(&self) -> Instant {
        let by_head = self.head_deadline();
        self.0.options.http2.age.map_or(by_head, |age| by_head.min(clock::now() + age.limit))
    }

    /// Returns the limits on the lifetime of an HTTP/2 connection.
    pub(crate) fn lifetime(&self) -> Lifetime<'_> {
        Lifetime { idle: self.0.options.connections.idle, stop: &self.0.stop, late_requests: Duration::ZERO }
    }

    /// Logs that a request was refused before it was read, unless a refusal of the same cause was logged within the
    /// last minute.
    pub(crate) fn log_refusal(&self, cause: &'static str, reason: &dyn Display) {
        if let Some(left_out) = self.0.refusals.lock().note(cause, clock::now().into()) {
            tracing::warn!(cause, left_out, reason = %reason, "a request was refused before it was read");
        }
    }
}
