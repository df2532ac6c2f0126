//! Attempts that a replica did not answer, and what became of the replica.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::now;
use crate::protocol::Protocol;
use crate::upstream::{Upstream, UpstreamError, UpstreamErrorKind};

/// Longest wait for the platform's report of how a program ended. A local platform has it within some milliseconds, a
/// kubelet mostly within a second or two, and the request waits meanwhile.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// An attempt that the replica or gateway of this name did not answer.
pub(super) struct LostAttempt {
    pub(super) name: Arc<str>,
    pub(super) error: UpstreamError,
    /// Time for which it had the request.
    pub(super) held: Duration,
    pub(super) status: ReplicaStatus,
}

/// What became of a replica that broke off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReplicaStatus {
    /// It runs, as far as is known: it lost the connection only.
    Runs,
    /// Its program ended, by a signal from outside or for a reason that is not known.
    Ended,
    /// Its program ended, and a request that it had may be why, with this sentence of the platform.
    Failed(Arc<str>),
}

impl LostAttempt {
    /// That of a replica, once it is known what became of it.
    pub(super) async fn at_replica(
        upstream: &Upstream,
        protocol: Protocol,
        error: UpstreamError,
        held: Duration,
        deadline: Option<Instant>,
    ) -> Self {
        let status = match error.kind {
            UpstreamErrorKind::Broken | UpstreamErrorKind::StaleConnection => {
                status(upstream, protocol, deadline).await
            }
            UpstreamErrorKind::ConnectFailed
            | UpstreamErrorKind::InvalidResponse
            | UpstreamErrorKind::RequestBodyFailed => ReplicaStatus::Runs,
        };
        Self {
            name: Arc::clone(&upstream.name),
            error,
            held,
            status,
        }
    }
}

async fn status(
    upstream: &Upstream,
    protocol: Protocol,
    deadline: Option<Instant>,
) -> ReplicaStatus {
    let is_gone = upstream.lost.is_cancelled();
    if !is_gone && !upstream.refuses_connections(protocol).await {
        return ReplicaStatus::Runs;
    }
    // A request that has little time is sent again while there is some of it left.
    let left = deadline.map(|deadline| deadline.saturating_duration_since(now()) / 2);
    let wait = left.map_or(REPORT_TIMEOUT, |left| left.min(REPORT_TIMEOUT));
    // Without a report in time its end is not known.
    let _ = tokio::time::timeout(wait, upstream.lost.cancelled()).await;
    match upstream.end() {
        Some(end) if end.may_be_of_a_request() => ReplicaStatus::Failed(Arc::clone(&end.message)),
        Some(_) | None => ReplicaStatus::Ended,
    }
}
