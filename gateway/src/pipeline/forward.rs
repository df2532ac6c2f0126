//! Sends a request to a replica, or to the gateway that owns its queue, with retries, and relays the response.
//!
//! ```text
//!   forward ─► admit (queue) ─┬─► attempt: replica ─┬─► relay the response
//!      ▲                      └─► attempt: gateway ─┘
//!      └── RetryState: may it be retried? ◄─────────┘ failure
//! ```

pub(crate) mod attempt;
mod batch_members;
mod lost;
pub(crate) mod mirror;
mod own_model;
mod read_ahead;
pub(crate) mod relay;
pub(crate) mod request;
mod resting;
mod retry;
mod slow_upload;
pub(crate) mod trusted_headers;
mod tunnel;

use std::io;
use std::time::Duration;

use http::Response;
use weir_protocol::Coded;

use crate::body::{BufferedBody, DownstreamBody};
use crate::context::Context;
use crate::error::{ClientLimit, GatewayError};
use crate::queue::{Admitted, RevisionQueue, Verdict};
use crate::upstream::{UpstreamError, UpstreamErrorKind};
use crate::wire::protocol::Protocol;
use attempt::Attempt;
pub(crate) use batch_members::{BatchMembers, BatchPlace};
use lost::{LostAttempt, ReplicaStatus};
pub(crate) use read_ahead::read_ahead;
use relay::BrokenResponse;
pub(crate) use request::ProxyRequest;
use retry::{Failure, RetryState};

/// Sends a request until a replica answers or no retry is left, and returns the response. A failure is logged and
/// counted.
pub(crate) async fn forward(
    context: &Context,
    request: &ProxyRequest,
    buffered: &mut BufferedBody,
) -> Result<Response<DownstreamBody>, GatewayError> {
    let mut retries = RetryState::new(request);
    let forwarded = forward_with_retries(context, request, buffered, &mut retries).await;
    forwarded.inspect_err(|error| {
        if !request.is_batch() {
            let verdict = verdict(error, missed(request, buffered));
            log_failed(&request.queue, error, verdict);
            request.queue.count(verdict);
        }
    })
}

/// State of a replica that broke off its response to a batch. The state decides if the batch's requests are retried.
pub(crate) enum BatchReplica {
    /// The replica still runs or was removed, and only the connection broke: the requests are retried.
    Runs,
    /// The program was ended from outside, or for an unknown reason: each request may be sent to one more replica.
    Ended,
    /// One of the requests may have ended the program, so none is retried.
    Failed(GatewayError),
}

/// Returns the state of the replica that broke off its response to a batch.
pub(crate) async fn replica_of_batch(request: &ProxyRequest, error: &io::Error) -> BatchReplica {
    let broken = error.get_ref().and_then(|error| error.downcast_ref::<BrokenResponse>());
    let Some(broken) = broken else {
        return BatchReplica::Runs;
    };
    let error = UpstreamError::broken(broken.to_string());
    let lost = LostAttempt::at_replica(&broken.replica, request, error, Duration::ZERO).await;
    match lost.status {
        ReplicaStatus::Failed(because) => {
            let revision = request.queue.name.to_string();
            let because = because.to_string();
            BatchReplica::Failed(GatewayError::ReplicaEnded { revision, replica: lost.name, because })
        }
        ReplicaStatus::Unreported | ReplicaStatus::Ended => BatchReplica::Ended,
        ReplicaStatus::Runs | ReplicaStatus::Removed => BatchReplica::Runs,
    }
}

/// Logs the error that ended a request, if the request counts as failed.
pub(crate) fn log_failed(queue: &RevisionQueue, error: &GatewayError, verdict: Verdict) {
    if verdict == Verdict::Failed {
        queue.log_failure(error.code().label(), error);
    }
}

/// Logs an attempt that failed, whether or not the request is retried.
fn log_attempt(queue: &RevisionQueue, failure: &Failure) {
    match failure {
        Failure::Refused | Failure::Unserved => {}
        Failure::Lost(LostAttempt { name, error, .. }) => {
            let UpstreamError { kind, because } = error;
            queue.log_failure(kind.label(), &format_args!("replica {name}: {because}"));
        }
        Failure::InvalidResponse(invalid) => {
            let kind = UpstreamErrorKind::InvalidResponse;
            let (replica, because) = (&invalid.replica, &invalid.because);
            queue.log_failure(kind.label(), &format_args!("replica {replica}: {because}"));
        }
    }
}

/// Returns the verdict on a request whose deadline passed. A request whose body had not arrived completely by then is
/// not counted.
fn missed(request: &ProxyRequest, buffered: &BufferedBody) -> Verdict {
    let upload = buffered.upload();
    match request.protocol {
        Protocol::Http if upload.is_some_and(|upload| upload.is_unread()) => Verdict::Uncounted,
        // A gRPC stream does not have to end before it is answered.
        Protocol::Http | Protocol::Grpc => request.missed,
    }
}

/// Returns the verdict on a request that ended with this error; `missed` is the verdict if its deadline passed.
pub(crate) fn verdict(error: &GatewayError, missed: Verdict) -> Verdict {
    if let GatewayError::LateInQueue { .. } | GatewayError::LateAtReplica { .. } = error {
        return missed;
    }
    if let GatewayError::OverLimit { limit: ClientLimit::WakeUps, .. } = error {
        return Verdict::Uncounted;
    }
    // The client has asked for a protocol that the replica does not have.
    if let GatewayError::NoUpgrade = error {
        return Verdict::Succeeded;
    }
    // A full queue is counted as a refusal already. The gateway that owns the queue counts a request that this gateway
    // does not own. A body that breaks off or is too slow is the client's fault.
    let is_not_counted = matches!(error, GatewayError::NotOwner(_) | GatewayError::Body(_) | GatewayError::SlowBody(_));
    if is_not_counted || error.is_full_queue() { Verdict::Open } else { Verdict::Failed }
}

async fn forward_with_retries(
    context: &Context,
    request: &ProxyRequest,
    buffered: &mut BufferedBody,
    retries: &mut RetryState<'_>,
) -> Result<Response<DownstreamBody>, GatewayError> {
    loop {
        let admission = request.admission(retries.sequence(), buffered.size());
        let attempt = match request.queue.admit(admission).await? {
            Admitted::OtherGateway => Box::pin(attempt::try_gateway(context, request, buffered)).await,
            Admitted::Replica(credit) if retries.must_avoid(&credit) => {
                retries.decline(credit)?;
                continue;
            }
            Admitted::Replica(mut credit) => {
                retries.note_sequence(credit.sequence);
                if let Some(members) = &request.members {
                    members.begin_attempt(&mut credit);
                }
                let on_refusal = retries.on_refusal(buffered);
                attempt::try_replica(context, request, buffered, credit, on_refusal).await
            }
        };
        match attempt {
            Attempt::Answered(response) => return Ok(response),
            Attempt::Over(error) => return Err(error),
            Attempt::Failed(failure) => {
                log_attempt(&request.queue, &failure);
                retries.retry_after(failure, buffered)?;
            }
        }
        if let Some(members) = &request.members {
            members.end_attempt();
        }
        context.counters.count_retry();
    }
}
