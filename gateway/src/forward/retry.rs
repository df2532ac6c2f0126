//! Sending: to a replica with a credit, or to the gateway that has the queue; again when it is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Response, Version};

use super::request::ProxyRequest;
use crate::body::{BufferedBody, DownstreamBody};
use crate::clock::{now, until};
use crate::codec;
use crate::error::GatewayError;
use crate::forward::{End, Relay, learn};
use crate::gateway::Gateway;
use crate::headers;
use crate::protocol::Protocol;
use crate::queue::dispatcher::{EndpointId, Outcome};
use crate::queue::{Admitted, Credit, Verdict};
use crate::upstream::UpstreamRequest;
use crate::upstream::{Freshness, ResponseBody, Upstream, UpstreamError, UpstreamErrorKind};
use crate::upstream::{RequestBody, UploadHandle};

/// How often a request is sent again: whoever loses four replicas in a row has another problem.
const MAX_REPLAYS: u32 = 3;

/// How often a replica's refusal is not passed on but waited over. Each takes a rest of 50 ms.
const MAX_REFUSALS: u32 = 8;

/// Gateways learn of each other at different moments; until they agree on who has a queue, whoever is
/// sent away asks again so much later...
const DISAGREEMENT: Duration = Duration::from_millis(20);

/// ... and so often: changes reach all within a second or two.
const MAX_HANDOVERS: u32 = 100;

/// What became of one try.
enum AttemptResult {
    Answered(Response<DownstreamBody>),
    /// By a replica that is full.
    Refused,
    /// By a gateway that does not have the queue.
    Unserved,
    Lost(Arc<str>, UpstreamError),
    /// By a replica that answered with what is no answer.
    InvalidResponse(InvalidAnswer),
    /// In a way that leaves nothing to try.
    Over(GatewayError),
}

/// A replica's answer that is none.
struct InvalidAnswer {
    replica: Arc<str>,
    endpoint: EndpointId,
    because: String,
    elsewhere: Elsewhere,
}

/// Whether a revision has another replica that takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elsewhere {
    Another,
    None,
}

/// What was tried so far.
#[derive(Default)]
struct RetryState {
    sequence: Option<u64>,
    lost: u32,
    refused: u32,
    handed: u32,
    /// The one answer that was none; there is no second try after a second one.
    invalid: Option<InvalidAnswer>,
    /// When it first met a replica that it could not reach.
    unreached: Option<Instant>,
}

impl Gateway {
    /// Brings a request to a replica and returns its answer.
    pub(crate) async fn forward(
        &self,
        request: &ProxyRequest,
        buffered: &mut BufferedBody,
    ) -> Result<Response<DownstreamBody>, GatewayError> {
        let mut retries = RetryState::default();
        let carried = self.try_all(request, buffered, &mut retries).await;
        carried.inspect_err(|error| match error {
            // Counted as refused, or by the gateway that owns the queue, or its client's doing.
            GatewayError::QueueFull { .. } | GatewayError::NotOwner(_) | GatewayError::Body(_) => {}
            // Each of a batch counts itself.
            _ if request.others.is_some() => {}
            _ => request.queue.count_failed(),
        })
    }

    async fn try_all(
        &self,
        request: &ProxyRequest,
        buffered: &mut BufferedBody,
        retries: &mut RetryState,
    ) -> Result<Response<DownstreamBody>, GatewayError> {
        let is_whole = buffered.is_whole();
        loop {
            let admitted = request
                .queue
                .admit(request.ask(retries.sequence, buffered.size()))
                .await?;
            let tried = match admitted {
                Admitted::OtherGateway(owner) => {
                    Box::pin(self.hand_over(request, buffered, owner)).await
                }
                Admitted::Replica(credit) if retries.was_invalid_from(&credit) => {
                    retries.decline(request, credit)?;
                    continue;
                }
                Admitted::Replica(mut credit) => {
                    if let Some(others) = &request.others {
                        credit.stand_for(others);
                    }
                    retries.sequence = Some(credit.sequence);
                    try_replica(
                        request,
                        buffered,
                        credit,
                        is_whole && retries.refused < MAX_REFUSALS,
                    )
                    .await
                }
            };
            match tried {
                AttemptResult::Answered(response) => return Ok(response),
                AttemptResult::Over(error) => return Err(error),
                AttemptResult::Refused => retries.refused += 1,
                AttemptResult::Unserved => {
                    retries.handed += 1;
                    if retries.handed > MAX_HANDOVERS || !is_whole {
                        return Err(GatewayError::NotOwner(request.queue.name.to_string()));
                    }
                }
                AttemptResult::Lost(replica, error) => {
                    retries.lose(request, is_whole, replica, error)?
                }
                AttemptResult::InvalidResponse(invalid) => {
                    retries.take(request, is_whole, invalid)?
                }
            }
            self.requests.count_replay();
        }
    }

    async fn hand_over(
        &self,
        request: &ProxyRequest,
        buffered: &mut BufferedBody,
        owner: u32,
    ) -> AttemptResult {
        let peer = self.state.load().peers.get(owner as usize).cloned();
        let Some(peer) = peer else {
            tokio::time::sleep(DISAGREEMENT).await;
            return AttemptResult::Unserved;
        };
        let sending = exchange(request.protocol, buffered, &peer, |body| {
            request.to_gateway(body)
        });
        let reply = tokio::select! {
            biased;
            reply = sending => reply,
            () = until(request.deadline) => return late(request, &peer.name, request.arrived),
        };
        match reply {
            Ok(reply) if codec::is_unserved(reply.headers()) => {
                tokio::time::sleep(DISAGREEMENT).await;
                AttemptResult::Unserved
            }
            Ok(reply) => {
                let (mut parts, body) = reply.into_parts();
                headers::strip(&mut parts.headers);
                parts.version = Version::HTTP_11;
                let relay = Relay::new(body, request, buffered.upload(), End::Gateway);
                AttemptResult::Answered(Response::from_parts(parts, relay.into_body()))
            }
            Err(error) if error.kind == UpstreamErrorKind::RequestBodyFailed => cut(),
            Err(error) => {
                tokio::time::sleep(DISAGREEMENT).await;
                AttemptResult::Lost(peer.name.clone(), error)
            }
        }
    }
}

impl RetryState {
    /// Notes that a replica was lost; an error if that was once too often. Who saw nothing of the request
    /// costs no try, only time: as much as a replica has to come up.
    fn lose(
        &mut self,
        request: &ProxyRequest,
        is_whole: bool,
        replica: Arc<str>,
        error: UpstreamError,
    ) -> Result<(), GatewayError> {
        let may_go_on = match error.kind {
            UpstreamErrorKind::ConnectFailed => {
                let since = *self.unreached.get_or_insert_with(now);
                now().saturating_duration_since(since) < request.activation
            }
            UpstreamErrorKind::StaleConnection
            | UpstreamErrorKind::Broken
            | UpstreamErrorKind::RequestBodyFailed => self.lost < MAX_REPLAYS,
            // A gateway's: what it has done nobody knows.
            UpstreamErrorKind::InvalidResponse => self.lost == 0,
        };
        if error.kind != UpstreamErrorKind::ConnectFailed {
            self.lost += 1;
        }
        if may_go_on && is_whole {
            return Ok(());
        }
        Err(GatewayError::Lost {
            revision: request.queue.name.to_string(),
            tries: self.lost,
            replica,
            because: error.because,
        })
    }

    /// Notes an answer that is none. The work may have been done, and whatever was wrong with the answer may be
    /// wrong with every replica's: the first time, and only if there is another replica, it is tried there.
    fn take(
        &mut self,
        request: &ProxyRequest,
        is_whole: bool,
        invalid: InvalidAnswer,
    ) -> Result<(), GatewayError> {
        let is_first = self.invalid.is_none();
        let may_go_on = is_first && is_whole && invalid.elsewhere == Elsewhere::Another;
        self.lost += 1;
        self.invalid = Some(invalid);
        match may_go_on {
            true => Ok(()),
            false => Err(self.invalid_response(request)),
        }
    }

    /// Gives a credit back that is of the replica whose answer was none: the others were busy for longer than
    /// that one rested. One of them may come free while it rests a little more.
    fn decline(&mut self, request: &ProxyRequest, credit: Credit) -> Result<(), GatewayError> {
        let has_others = credit.has_others();
        credit.settle(Outcome::Refused, Verdict::Open);
        match has_others {
            true => Ok(()),
            false => Err(self.invalid_response(request)),
        }
    }

    fn was_invalid_from(&self, credit: &Credit) -> bool {
        let invalid = self.invalid.as_ref();
        invalid.is_some_and(|invalid| invalid.endpoint == credit.endpoint())
    }

    fn invalid_response(&mut self, request: &ProxyRequest) -> GatewayError {
        let revision = request.queue.name.to_string();
        match self.invalid.take() {
            Some(invalid) => GatewayError::InvalidResponse {
                revision,
                tries: self.lost,
                replica: invalid.replica,
                because: invalid.because,
            },
            None => GatewayError::Gone(revision),
        }
    }
}

async fn try_replica(
    request: &ProxyRequest,
    buffered: &mut BufferedBody,
    credit: Credit,
    may_wait: bool,
) -> AttemptResult {
    let upstream = Arc::clone(&credit.upstream);
    let sending = exchange(request.protocol, buffered, &upstream, |body| {
        request.to_replica(body)
    });
    let reply = tokio::select! {
        biased;
        reply = sending => reply,
        () = upstream.lost.cancelled() => Err(UpstreamError::broken("it is gone")),
        () = until(request.deadline) => {
            let since = credit.since;
            credit.settle(Outcome::Abandoned, Verdict::Open);
            return late(request, &upstream.name, since);
        }
    };
    match reply {
        Ok(reply) if may_wait && codec::is_refusal(request.protocol, &reply) => {
            learn(&credit, reply.headers());
            credit.settle(Outcome::Refused, Verdict::Open);
            AttemptResult::Refused
        }
        Ok(reply) => AttemptResult::Answered(relayed(request, credit, reply, buffered.upload())),
        Err(error) if error.kind == UpstreamErrorKind::RequestBodyFailed => {
            credit.settle(Outcome::Abandoned, Verdict::Open);
            cut()
        }
        Err(error) if error.kind == UpstreamErrorKind::InvalidResponse => {
            invalid_response(credit, error.because)
        }
        Err(error) => {
            credit.settle(Outcome::Failed, Verdict::Open);
            AttemptResult::Lost(upstream.name.clone(), error)
        }
    }
}

fn invalid_response(credit: Credit, because: String) -> AttemptResult {
    let invalid = InvalidAnswer {
        replica: credit.upstream.name.clone(),
        endpoint: credit.endpoint(),
        because,
        elsewhere: match credit.has_others() {
            true => Elsewhere::Another,
            false => Elsewhere::None,
        },
    };
    credit.settle(Outcome::InvalidResponse, Verdict::Open);
    AttemptResult::InvalidResponse(invalid)
}

/// Sends over a connection that may be stale, and then over one that is not; what can be sent only once,
/// over a new one.
async fn exchange<'a>(
    protocol: Protocol,
    buffered: &mut BufferedBody,
    upstream: &Arc<Upstream>,
    request: impl Fn(RequestBody) -> UpstreamRequest<'a>,
) -> Result<Response<ResponseBody>, UpstreamError> {
    let freshness = match buffered.is_whole() {
        true => Freshness::Any,
        false => Freshness::New,
    };
    let sent = upstream.send(protocol, freshness, || request(buffered.to_request_body()));
    match (sent.await, freshness) {
        // Of such a fault the replica is innocent.
        (Err(error), _) if buffered.has_upload_failed() => Err(UpstreamError {
            kind: UpstreamErrorKind::RequestBodyFailed,
            ..error
        }),
        (Err(error), Freshness::Any) if error.kind == UpstreamErrorKind::StaleConnection => {
            let again = || request(buffered.to_request_body());
            Box::pin(upstream.send(protocol, Freshness::New, again)).await
        }
        (sent, Freshness::Any | Freshness::New) => sent,
    }
}

fn relayed(
    request: &ProxyRequest,
    credit: Credit,
    reply: Response<ResponseBody>,
    upload: Option<UploadHandle>,
) -> Response<DownstreamBody> {
    let verdict = codec::verdict(request.protocol, &reply);
    let (mut parts, body) = reply.into_parts();
    headers::strip(&mut parts.headers);
    for name in [headers::REFUSED, headers::UNSERVED] {
        parts.headers.remove(name);
    }
    parts.version = Version::HTTP_11;
    let is_whole_story = verdict != Verdict::Open;
    if is_whole_story {
        learn(&credit, &parts.headers);
        headers::add_timing(&mut parts.headers, credit.queued);
    }
    parts
        .headers
        .insert(headers::REVISION, request.queue.header.clone());
    let end = End::Replica { credit, verdict };
    let relay = Relay::new(body, request, upload, end);
    Response::from_parts(parts, relay.into_body())
}

fn cut() -> AttemptResult {
    AttemptResult::Over(GatewayError::Body(
        "broke off while it was sent on".to_owned(),
    ))
}

fn late(request: &ProxyRequest, replica: &Arc<str>, since: Instant) -> AttemptResult {
    AttemptResult::Over(GatewayError::LateAtReplica {
        revision: request.queue.name.to_string(),
        replica: Arc::clone(replica),
        queued: since.saturating_duration_since(request.arrived),
        waited: now().saturating_duration_since(since),
    })
}
