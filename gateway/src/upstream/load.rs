//! Counts the requests that this gateway has at one upstream.

use std::sync::atomic::{AtomicU32, Ordering};

use weir_cluster::ReplicaLoad;

/// Counts of the requests at one upstream. They include resting streams, whose credits are lent.
#[derive(Debug, Default)]
pub(crate) struct UpstreamLoad {
    requests: AtomicU32,
    streams: AtomicU32,
}

/// Kind of a request in its upstream's counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// The response has not begun, or its length is known.
    Unary,
    /// The response has begun, and its length is unknown.
    Stream,
}

impl UpstreamLoad {
    /// Counts a request that is sent to the upstream.
    pub(crate) fn begin(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request as a stream from now on.
    pub(crate) fn become_stream(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a request.
    pub(crate) fn end(&self, kind: RequestKind) {
        match kind {
            RequestKind::Unary => {}
            RequestKind::Stream => drop(self.streams.fetch_sub(1, Ordering::Relaxed)),
        }
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the current numbers of requests and streams.
    pub(crate) fn get(&self) -> ReplicaLoad {
        ReplicaLoad { streams: self.streams.load(Ordering::Relaxed), requests: self.requests.load(Ordering::Relaxed) }
    }
}
