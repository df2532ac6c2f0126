//! Requests that this gateway has at one upstream.

use std::sync::atomic::{AtomicU32, Ordering};

use weir_cluster::ReplicaLoad;

/// Counts of the requests at one upstream, those of resting streams included, whose credits are lent.
#[derive(Debug, Default)]
pub(crate) struct UpstreamLoad {
    requests: AtomicU32,
    streams: AtomicU32,
}

/// One request in the counts of its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// The response has not begun, or says how long it is.
    Unary,
    /// The response has begun and does not say how long it is.
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

    /// The requests and streams at this moment.
    pub(crate) fn get(&self) -> ReplicaLoad {
        ReplicaLoad { streams: self.streams.load(Ordering::Relaxed), requests: self.requests.load(Ordering::Relaxed) }
    }
}
