//! Attempts that a replica did not answer, and the state of the replica afterwards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::request::ProxyRequest;
use crate::clock::now;
use crate::queue::cause;
use crate::upstream::{Upstream, UpstreamError, UpstreamErrorKind};

/// Longest wait for the platform to report how a program ended. A local platform reports within milliseconds. On
/// Kubernetes the kubelet needs a second or two, and the controller and the API server some tenths of a second more.
/// Without a report, a request that crashes programs would be retried and crash another one, so the wait is long enough
/// for most reports.
const REPORT_TIMEOUT: Duration = Duration::from_secs(3);

/// An attempt that the replica or gateway with this name did not answer.
pub(super) struct LostAttempt {
    pub(super) name: Arc<str>,
    pub(super) error: UpstreamError,
    /// Time for which the replica had the request.
    pub(super) time_at_replica: Duration,
    pub(super) status: ReplicaStatus,
}

/// State of a replica that broke off a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReplicaStatus {
    /// The program runs, as far as is known, and only the connection was lost.
    Runs,
    /// The replica has left the cluster, such as a deleted pod, and no exit of its program was reported.
    Removed,
    /// The program ended, and the platform did not report in time how.
    Unreported,
    /// The program was ended from outside.
    Ended,
    /// The program ended, perhaps because of one of its requests; with a description for clients.
    Failed(Arc<str>),
}

impl LostAttempt {
    /// Creates the lost attempt of a request at a replica, after waiting for the platform's report if the program ended.
    pub(super) async fn at_replica(
        upstream: &Upstream,
        request: &ProxyRequest,
        error: UpstreamError,
        time_at_replica: Duration,
    ) -> Self {
        let status = match error.kind {
            UpstreamErrorKind::Broken | UpstreamErrorKind::StaleConnection => status(upstream, request).await,
            UpstreamErrorKind::ConnectFailed
            | UpstreamErrorKind::Untrusted
            | UpstreamErrorKind::InvalidResponse
            | UpstreamErrorKind::RequestBodyFailed => ReplicaStatus::Runs,
        };
        Self { name: Arc::clone(&upstream.name), error, time_at_replica, status }
    }
}

async fn status(upstream: &Upstream, request: &ProxyRequest) -> ReplicaStatus {
    let exits = upstream.exits();
    let is_gone = upstream.lost.is_cancelled();
    if !is_gone && !upstream.refuses_connections(request.protocol).await {
        return ReplicaStatus::Runs;
    }
    // If no report arrives in time, the cause of the exit is unknown.
    let ended = tokio::time::timeout(report_wait(request.deadline, now()), upstream.ended(exits)).await;
    match ended.ok().flatten() {
        Some(end) if end.may_be_caused_by_request() => {
            let replica = &upstream.name;
            request.queue.log_failure("replica_ended", &format_args!("replica {replica}: {:?}", end.message));
            ReplicaStatus::Failed(cause::describe(&end, None).into())
        }
        Some(_) => ReplicaStatus::Ended,
        None if upstream.lost.is_cancelled() => ReplicaStatus::Removed,
        None => ReplicaStatus::Unreported,
    }
}

/// Returns the longest wait for a report. At most half of the time left until the request's deadline is spent on it, so
/// that the request can still be retried.
fn report_wait(deadline: Option<Instant>, now: Instant) -> Duration {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(now) / 2);
    left.map_or(REPORT_TIMEOUT, |left| left.min(REPORT_TIMEOUT))
}
