//! One attempt: sends a request to one replica or one gateway.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, Version};
use tokio_util::sync::CancellationToken;
use weir_serve::header_names;

use super::lost::{LostAttempt, ReplicaStatus};
use super::own_model;
use super::relay::{Relay, RelayEnd, learn};
use super::request::ProxyRequest;
use super::resting::AnswerCount;
use super::retry::{Failure, InvalidResponse, OnRefusal};
use super::slow_upload::lend_while_slow;
use super::tunnel::{is_switched, switched};
use crate::body::{BufferedBody, DownstreamBody};
use crate::clock::{now, until};
use crate::codec;
use crate::context::Context;
use crate::error::GatewayError;
use crate::queue::{Credit, Outcome, Verdict};
use crate::upstream::{
    Channel, Freshness, RequestBody, ResponseBody, Upgrade, UploadFailure, Upstream, UpstreamError, UpstreamErrorKind,
    UpstreamRequest,
};
use crate::wire::headers;
use crate::wire::protocol::Protocol;

/// Wait before a request is sent to a gateway again. Gateways learn of each other at different moments. Until each has
/// learnt of a change, they may disagree on which of them owns a queue.
const HANDOVER_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Longest time after the start of sending for which a failure of a pooled connection means that the connection was
/// stale. A connection that the replica had closed before fails within one round trip, and this leaves time for a
/// retransmission. After a later failure the replica may have worked on the request, or its node is gone.
const STALE_WITHIN: Duration = Duration::from_secs(1);

/// Media type of server-sent events, without its parameters.
const EVENT_STREAM: &str = "text/event-stream";

static NOT_FOR_CLIENTS: [HeaderName; 3] = [headers::REFUSED, headers::UNSERVED, headers::LIMIT];

/// Result of one attempt.
pub(super) enum Attempt {
    Answered(Response<DownstreamBody>),
    /// The attempt failed and may be retried, if [`RetryState`](super::retry::RetryState) allows it.
    Failed(Failure),
    /// The request must not be retried.
    Over(GatewayError),
}

/// Sends a request to the replica of `credit`. A refusal is a failure if it may be retried; otherwise it is the
/// response.
pub(super) async fn try_replica(
    context: &Context,
    request: &ProxyRequest,
    buffered: &mut BufferedBody,
    mut credit: Credit,
    on_refusal: OnRefusal,
) -> Attempt {
    let upstream = Arc::clone(&credit.upstream);
    if request.upgrade != Upgrade::None && upstream.endpoints.http.is_none() {
        credit.settle(Outcome::Abandoned, Verdict::Open);
        return Attempt::Over(GatewayError::NoUpgrade);
    }
    credit.begin_attempt();
    // The future that lends the credit is boxed: most requests are buffered whole and lend none, so their own futures
    // should not reserve space for it.
    let upload = buffered.upload();
    let channel = credit.channel;
    let mut lending = upload.map(|upload| Box::pin(lend_while_slow(&mut credit, upload)));
    let sending = exchange(request.protocol, buffered, &upstream, channel, |body| request.to_replica(body));
    let reply = tokio::select! {
        biased;
        reply = sending => Some(reply),
        never = lent(&mut lending) => match never {},
        () = upstream.lost.cancelled() => Some(Err(UpstreamError::broken("it is gone"))),
        () = until(request.deadline) => None,
    };
    drop(lending);
    // The replica is working on its answer, or the attempt is over, so a lent credit is taken back.
    credit.resume();
    let Some(reply) = reply else {
        // The credit is dropped here, because the replica may still work on the request.
        return late(request, &upstream.name, credit.since);
    };
    credit.end_attempt();
    let refusal = reply.as_ref().ok().filter(|_| on_refusal == OnRefusal::Retry);
    let refusal = refusal.and_then(|reply| codec::refusal(request.protocol, reply));
    match (reply, refusal) {
        (Ok(reply), Some(outcome)) => {
            learn(&credit, reply.headers());
            credit.settle(outcome, Verdict::Open);
            Attempt::Failed(Failure::Refused)
        }
        (Ok(reply), None) => Attempt::Answered(relayed(request, credit, reply, buffered, &context.shutdown)),
        (Err(error), _) if error.kind == UpstreamErrorKind::RequestBodyFailed => {
            credit.settle(Outcome::Abandoned, Verdict::Open);
            upload_failed(buffered)
        }
        (Err(error), _) if error.kind == UpstreamErrorKind::InvalidResponse => invalid_response(credit, error.because),
        (Err(error), _) => {
            let time_at_replica = now().saturating_duration_since(credit.since);
            let error = while_others_work(error, &credit);
            credit.settle(Outcome::Failed, Verdict::Open);
            // Boxed, so that the future of a request that is answered reserves no space for this case.
            let lost = LostAttempt::at_replica(&upstream, request, error, time_at_replica);
            Attempt::Failed(Failure::Lost(Box::pin(lost).await))
        }
    }
}

/// Runs the future that lends the credit; pends forever if there is none.
async fn lent(lending: &mut Option<Pin<Box<impl Future<Output = Infallible>>>>) -> Infallible {
    match lending {
        Some(lending) => lending.await,
        None => std::future::pending().await,
    }
}

/// Sends a request to the gateway that owns the revision's queue. The queue hands requests over a moment before the
/// state with the new gateways is in use, so no other gateway may own the queue yet; then the request is not sent.
pub(super) async fn try_gateway(context: &Context, request: &ProxyRequest, buffered: &mut BufferedBody) -> Attempt {
    let peer = context.state.load().other_owner(&request.queue.name, &context.options.name).cloned();
    let Some(peer) = peer else {
        tokio::time::sleep(HANDOVER_RETRY_DELAY).await;
        return Attempt::Failed(Failure::Unserved);
    };
    let sending = exchange(request.protocol, buffered, &peer, Channel::Common, |body| request.to_gateway(body));
    let reply = tokio::select! {
        biased;
        reply = sending => reply,
        () = until(request.deadline) => return late(request, &peer.name, request.queued_since),
    };
    match reply {
        Ok(reply) if codec::is_unserved(reply.headers()) => {
            tokio::time::sleep(HANDOVER_RETRY_DELAY).await;
            Attempt::Failed(Failure::Unserved)
        }
        Ok(reply) if is_switched(&reply) => Attempt::Answered(switched(request, reply, RelayEnd::Gateway)),
        Ok(reply) => {
            let (mut parts, body) = reply.into_parts();
            headers::strip_response(&mut parts.headers);
            if let Some(limit) = headers::number(&parts.headers, &headers::LIMIT) {
                parts.headers.remove(&headers::LIMIT);
                request.queue.learn_limit(limit);
            }
            parts.version = Version::HTTP_11;
            let mut relay = Relay::new(body, request, buffered.upload(), RelayEnd::Gateway);
            if request.protocol == Protocol::Grpc {
                relay = relay.may_rest(AnswerCount::of(&parts.headers), &context.shutdown);
            }
            Attempt::Answered(Response::from_parts(parts, relay.into_body()))
        }
        Err(error) if error.kind == UpstreamErrorKind::RequestBodyFailed => upload_failed(buffered),
        Err(error) => {
            tokio::time::sleep(HANDOVER_RETRY_DELAY).await;
            // The replica behind that gateway may be lost as well, but only that gateway ejects it.
            Attempt::Failed(Failure::Lost(LostAttempt {
                name: Arc::clone(&peer.name),
                error,
                time_at_replica: Duration::ZERO,
                status: ReplicaStatus::Runs,
            }))
        }
    }
}

fn invalid_response(credit: Credit, because: String) -> Attempt {
    let invalid = InvalidResponse {
        replica: credit.upstream.name.clone(),
        endpoint: credit.endpoint(),
        because,
        has_others: credit.has_others(),
    };
    credit.settle(Outcome::InvalidResponse, Verdict::Open);
    Attempt::Failed(Failure::InvalidResponse(invalid))
}

/// Sends over a pooled connection, and once more over a new one if the pooled one was stale. A body that can be sent
/// only once goes over a connection of its own.
pub(crate) async fn exchange<'a>(
    protocol: Protocol,
    buffered: &mut BufferedBody,
    upstream: &Arc<Upstream>,
    channel: Channel,
    request: impl Fn(RequestBody) -> UpstreamRequest<'a>,
) -> Result<Response<ResponseBody>, UpstreamError> {
    let freshness = if buffered.is_whole() { Freshness::Any } else { Freshness::Own };
    let begun = now();
    let sent = upstream.send(protocol, freshness, channel, || request(buffered.take_request_body()));
    match (sent.await, freshness) {
        // The client's upload failed, which is not the replica's fault.
        (Err(error), _) if buffered.upload_failure().is_some() => {
            Err(UpstreamError { kind: UpstreamErrorKind::RequestBodyFailed, ..error })
        }
        (Err(error), Freshness::Any) if was_stale(&error, begun) => {
            let again = || request(buffered.take_request_body());
            let sent = Box::pin(upstream.send(protocol, Freshness::New, channel, again)).await;
            sent.map_err(unreachable_as_broken)
        }
        (sent, Freshness::Any | Freshness::New | Freshness::Own) => sent,
    }
}

/// True if the replica had closed the connection before it got the request, which was sent at `begun`.
fn was_stale(error: &UpstreamError, begun: Instant) -> bool {
    error.kind == UpstreamErrorKind::StaleConnection && now().saturating_duration_since(begun) < STALE_WITHIN
}

/// Returns the error of a second attempt. If the replica no longer accepts connections, the first attempt may have
/// ended it: then the replica counts as lost, not as unreachable. Otherwise a request that crashes replicas would be
/// sent to all of them.
fn unreachable_as_broken(error: UpstreamError) -> UpstreamError {
    match error.kind {
        UpstreamErrorKind::ConnectFailed | UpstreamErrorKind::Untrusted => {
            UpstreamError { kind: UpstreamErrorKind::Broken, ..error }
        }
        UpstreamErrorKind::StaleConnection
        | UpstreamErrorKind::Broken
        | UpstreamErrorKind::InvalidResponse
        | UpstreamErrorKind::RequestBodyFailed => error,
    }
}

/// Returns the error of a replica. While another replica works, one with a wrong certificate is only unreachable: the request
/// waits for the other one, as long as for any replica.
fn while_others_work(error: UpstreamError, credit: &Credit) -> UpstreamError {
    if error.kind == UpstreamErrorKind::Untrusted && credit.others_work() {
        return UpstreamError { kind: UpstreamErrorKind::ConnectFailed, ..error };
    }
    error
}

/// Returns the response to relay to the client.
fn relayed(
    request: &ProxyRequest,
    credit: Credit,
    reply: Response<ResponseBody>,
    buffered: &BufferedBody,
    shutdown: &CancellationToken,
) -> Response<DownstreamBody> {
    if is_switched(&reply) {
        return switched(
            request,
            without_own_headers(reply, request),
            RelayEnd::Replica { credit, verdict: Verdict::Open },
        );
    }
    let verdict = own_model::verdict(request, buffered, &reply);
    let (mut parts, body) = without_own_headers(reply, request).into_parts();
    if request.is_handed_over()
        && let Some(limit) = credit.measured_limit()
    {
        parts.headers.insert(headers::LIMIT, limit.into());
    }
    let has_trailers = verdict == Verdict::Open;
    let is_grpc = request.protocol == Protocol::Grpc;
    let answers = is_grpc.then(|| AnswerCount::of(&parts.headers));
    if !has_trailers {
        learn(&credit, &parts.headers);
        headers::add_timing(&mut parts.headers, credit.queued);
    }
    let end = RelayEnd::Replica { credit, verdict };
    let mut relay = Relay::new(body, request, buffered.upload(), end);
    if is_stream(request, &parts.headers) {
        relay = relay.measure_first_byte();
    }
    if let Some(answers) = answers {
        relay = relay.may_rest(answers, shutdown);
    }
    Response::from_parts(parts, relay.into_body())
}

/// Returns true if the response is a stream of results: server-sent events, or an answer to a V2 stream of gRPC.
fn is_stream(request: &ProxyRequest, response: &HeaderMap) -> bool {
    match request.protocol {
        Protocol::Http => {
            let kind = response.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
            kind.get(..EVENT_STREAM.len()).is_some_and(|start| start.eq_ignore_ascii_case(EVENT_STREAM.as_bytes()))
        }
        Protocol::Grpc => request.path.path().ends_with("/ModelStreamInfer"),
    }
}

/// Removes the headers of the connection to the replica and those for gateways only, and adds the revision.
fn without_own_headers(reply: Response<ResponseBody>, request: &ProxyRequest) -> Response<ResponseBody> {
    let (mut parts, body) = reply.into_parts();
    headers::strip_response(&mut parts.headers);
    if header_names::has_any(&parts.headers, &NOT_FOR_CLIENTS) {
        for name in &NOT_FOR_CLIENTS {
            parts.headers.remove(name);
        }
    }
    parts.version = Version::HTTP_11;
    parts.headers.insert(headers::REVISION, request.queue.header.clone());
    Response::from_parts(parts, body)
}

fn upload_failed(buffered: &BufferedBody) -> Attempt {
    Attempt::Over(match buffered.upload_failure() {
        Some(UploadFailure::Stalled(pause)) => GatewayError::SlowBody(pause),
        Some(UploadFailure::BrokenOff) | None => GatewayError::Body("broke off while it was sent on".to_owned()),
    })
}

fn late(request: &ProxyRequest, replica: &Arc<str>, since: Instant) -> Attempt {
    Attempt::Over(GatewayError::LateAtReplica {
        revision: request.queue.name.to_string(),
        replica: Arc::clone(replica),
        queued: since.saturating_duration_since(request.queued_since),
        waited: now().saturating_duration_since(since),
    })
}
