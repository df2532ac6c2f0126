//! Sending: to a replica with a credit, or to the gateway that has the queue; again when it is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Response, Version};

use super::call::Call;
use crate::answer::{Answer, End, Relay, learn};
use crate::clock::{now, until};
use crate::codec;
use crate::departing::Departing;
use crate::desk::{Outcome, SeatKey};
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::headers;
use crate::line::{Admitted, Credit, Verdict};
use crate::outgoing::{Outgoing, Sender};
use crate::receive::Held;
use crate::upstream::{Arriving, Fault, FaultKind, Freshness, Upstream};
use crate::wire::Wire;

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
enum Tried {
    Answered(Response<Answer>),
    /// By a replica that is full.
    Refused,
    /// By a gateway that does not have the queue.
    Unserved,
    Lost(Arc<str>, Fault),
    /// By a replica that answered with what is no answer.
    Garbled(Garble),
    /// In a way that leaves nothing to try.
    Over(GatewayError),
}

/// A replica's answer that is none.
struct Garble {
    replica: Arc<str>,
    seat: SeatKey,
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
struct Tries {
    place: Option<u64>,
    lost: u32,
    refused: u32,
    handed: u32,
    /// The one answer that was none; there is no second try after a second one.
    garble: Option<Garble>,
    /// When it first met a replica that it could not reach.
    unreached: Option<Instant>,
}

impl Gateway {
    /// Brings a request to a replica and returns its answer.
    pub(crate) async fn carry(
        &self,
        call: &Call,
        held: &mut Held,
    ) -> Result<Response<Answer>, GatewayError> {
        let mut tries = Tries::default();
        let carried = self.try_all(call, held, &mut tries).await;
        carried.inspect_err(|error| match error {
            // Counted as refused, or by the gateway that owns the queue, or its client's doing.
            GatewayError::QueueFull { .. } | GatewayError::NotOwner(_) | GatewayError::Body(_) => {}
            // Each of a batch counts itself.
            _ if call.others.is_some() => {}
            _ => call.line.count_failed(),
        })
    }

    async fn try_all(
        &self,
        call: &Call,
        held: &mut Held,
        tries: &mut Tries,
    ) -> Result<Response<Answer>, GatewayError> {
        let is_whole = held.is_whole();
        loop {
            let admitted = call.line.admit(call.ask(tries.place, held.size())).await?;
            let tried = match admitted {
                Admitted::Elsewhere(owner) => Box::pin(self.hand_over(call, held, owner)).await,
                Admitted::Here(credit) if tries.was_garbled_by(&credit) => {
                    tries.decline(call, credit)?;
                    continue;
                }
                Admitted::Here(mut credit) => {
                    if let Some(others) = &call.others {
                        credit.stand_for(others);
                    }
                    tries.place = Some(credit.place);
                    try_replica(call, held, credit, is_whole && tries.refused < MAX_REFUSALS).await
                }
            };
            match tried {
                Tried::Answered(response) => return Ok(response),
                Tried::Over(error) => return Err(error),
                Tried::Refused => tries.refused += 1,
                Tried::Unserved => {
                    tries.handed += 1;
                    if tries.handed > MAX_HANDOVERS || !is_whole {
                        return Err(GatewayError::NotOwner(call.line.name.to_string()));
                    }
                }
                Tried::Lost(replica, fault) => tries.lose(call, is_whole, replica, fault)?,
                Tried::Garbled(garble) => tries.take(call, is_whole, garble)?,
            }
            self.requests.count_replay();
        }
    }

    async fn hand_over(&self, call: &Call, held: &mut Held, owner: u32) -> Tried {
        let peer = self.view.load().peers.get(owner as usize).cloned();
        let Some(peer) = peer else {
            tokio::time::sleep(DISAGREEMENT).await;
            return Tried::Unserved;
        };
        let sending = exchange(call.wire, held, &peer, |body| call.to_gateway(body));
        let reply = tokio::select! {
            biased;
            reply = sending => reply,
            () = until(call.deadline) => return late(call, &peer.name, call.arrived),
        };
        match reply {
            Ok(reply) if codec::is_unserved(reply.headers()) => {
                tokio::time::sleep(DISAGREEMENT).await;
                Tried::Unserved
            }
            Ok(reply) => {
                let (mut parts, body) = reply.into_parts();
                headers::strip(&mut parts.headers);
                parts.version = Version::HTTP_11;
                let relay = Relay::new(body, call, held.sender(), End::Gateway);
                let answer = Answer::Relayed(Box::new(relay));
                Tried::Answered(Response::from_parts(parts, answer))
            }
            Err(fault) if fault.kind == FaultKind::Cut => cut(),
            Err(fault) => {
                tokio::time::sleep(DISAGREEMENT).await;
                Tried::Lost(peer.name.clone(), fault)
            }
        }
    }
}

impl Tries {
    /// Notes that a replica was lost; an error if that was once too often. Who saw nothing of the request
    /// costs no try, only time: as much as a replica has to come up.
    fn lose(
        &mut self,
        call: &Call,
        is_whole: bool,
        replica: Arc<str>,
        fault: Fault,
    ) -> Result<(), GatewayError> {
        let may_go_on = match fault.kind {
            FaultKind::Unreached => {
                let since = *self.unreached.get_or_insert_with(now);
                now().saturating_duration_since(since) < call.activation
            }
            FaultKind::Stale | FaultKind::Broken | FaultKind::Cut => self.lost < MAX_REPLAYS,
            // A gateway's: what it has done nobody knows.
            FaultKind::Garbled => self.lost == 0,
        };
        if fault.kind != FaultKind::Unreached {
            self.lost += 1;
        }
        if may_go_on && is_whole {
            return Ok(());
        }
        Err(GatewayError::Lost {
            revision: call.line.name.to_string(),
            tries: self.lost,
            replica,
            because: fault.because,
        })
    }

    /// Notes an answer that is none. The work may have been done, and whatever was wrong with the answer may be
    /// wrong with every replica's: the first time, and only if there is another replica, it is tried there.
    fn take(&mut self, call: &Call, is_whole: bool, garble: Garble) -> Result<(), GatewayError> {
        let is_first = self.garble.is_none();
        let may_go_on = is_first && is_whole && garble.elsewhere == Elsewhere::Another;
        self.lost += 1;
        self.garble = Some(garble);
        match may_go_on {
            true => Ok(()),
            false => Err(self.garbled(call)),
        }
    }

    /// Gives a credit back that is of the replica whose answer was none: the others were busy for longer than
    /// that one rested. One of them may come free while it rests a little more.
    fn decline(&mut self, call: &Call, credit: Credit) -> Result<(), GatewayError> {
        let has_others = credit.has_others();
        credit.settle(Outcome::Refused, Verdict::Open);
        match has_others {
            true => Ok(()),
            false => Err(self.garbled(call)),
        }
    }

    fn was_garbled_by(&self, credit: &Credit) -> bool {
        let garble = self.garble.as_ref();
        garble.is_some_and(|garble| garble.seat == credit.seat())
    }

    fn garbled(&mut self, call: &Call) -> GatewayError {
        let revision = call.line.name.to_string();
        match self.garble.take() {
            Some(garble) => GatewayError::Garbled {
                revision,
                tries: self.lost,
                replica: garble.replica,
                because: garble.because,
            },
            None => GatewayError::Gone(revision),
        }
    }
}

async fn try_replica(call: &Call, held: &mut Held, credit: Credit, may_wait: bool) -> Tried {
    let upstream = Arc::clone(&credit.upstream);
    let sending = exchange(call.wire, held, &upstream, |body| call.to_replica(body));
    let reply = tokio::select! {
        biased;
        reply = sending => reply,
        () = upstream.lost.cancelled() => Err(Fault::broken("it is gone")),
        () = until(call.deadline) => {
            let since = credit.since;
            credit.settle(Outcome::Abandoned, Verdict::Open);
            return late(call, &upstream.name, since);
        }
    };
    match reply {
        Ok(reply) if may_wait && codec::is_refusal(call.wire, &reply) => {
            learn(&credit, reply.headers());
            credit.settle(Outcome::Refused, Verdict::Open);
            Tried::Refused
        }
        Ok(reply) => Tried::Answered(relayed(call, credit, reply, held.sender())),
        Err(fault) if fault.kind == FaultKind::Cut => {
            credit.settle(Outcome::Abandoned, Verdict::Open);
            cut()
        }
        Err(fault) if fault.kind == FaultKind::Garbled => garbled(credit, fault.because),
        Err(fault) => {
            credit.settle(Outcome::Failed, Verdict::Open);
            Tried::Lost(upstream.name.clone(), fault)
        }
    }
}

fn garbled(credit: Credit, because: String) -> Tried {
    let garble = Garble {
        replica: credit.upstream.name.clone(),
        seat: credit.seat(),
        because,
        elsewhere: match credit.has_others() {
            true => Elsewhere::Another,
            false => Elsewhere::None,
        },
    };
    credit.settle(Outcome::Garbled, Verdict::Open);
    Tried::Garbled(garble)
}

/// Sends over a connection that may be stale, and then over one that is not; what can be sent only once,
/// over a new one.
async fn exchange<'a>(
    wire: Wire,
    held: &mut Held,
    upstream: &Arc<Upstream>,
    request: impl Fn(Outgoing) -> Departing<'a>,
) -> Result<Response<Arriving>, Fault> {
    let freshness = match held.is_whole() {
        true => Freshness::Any,
        false => Freshness::New,
    };
    let sent = upstream.send(wire, freshness, || request(held.outgoing()));
    match (sent.await, freshness) {
        // Of such a fault the replica is innocent.
        (Err(fault), _) if held.is_cut() => Err(Fault {
            kind: FaultKind::Cut,
            ..fault
        }),
        (Err(fault), Freshness::Any) if fault.kind == FaultKind::Stale => {
            let again = || request(held.outgoing());
            Box::pin(upstream.send(wire, Freshness::New, again)).await
        }
        (sent, Freshness::Any | Freshness::New) => sent,
    }
}

fn relayed(
    call: &Call,
    credit: Credit,
    reply: Response<Arriving>,
    sender: Option<Sender>,
) -> Response<Answer> {
    let verdict = codec::verdict(call.wire, &reply);
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
        .insert(headers::REVISION, call.line.header.clone());
    let end = End::Replica { credit, verdict };
    let relay = Relay::new(body, call, sender, end);
    Response::from_parts(parts, Answer::Relayed(Box::new(relay)))
}

fn cut() -> Tried {
    Tried::Over(GatewayError::Body(
        "broke off while it was sent on".to_owned(),
    ))
}

fn late(call: &Call, replica: &Arc<str>, since: Instant) -> Tried {
    Tried::Over(GatewayError::LateAtReplica {
        revision: call.line.name.to_string(),
        replica: Arc::clone(replica),
        queued: since.saturating_duration_since(call.arrived),
        waited: now().saturating_duration_since(since),
    })
}
