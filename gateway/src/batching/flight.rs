//! Batches under way.

use std::sync::Arc;
use std::time::Instant;

use http::HeaderMap;
use http::response::Parts;
use http_body_util::BodyExt;
use tokio::runtime::Handle;

use super::Rules;
use super::member::Member;
use super::part::{Part, headers_of};
use super::share::{Fate, Whole, hand_out};
use crate::answer::Answer;
use crate::buffers::Grown;
use crate::clock::now;
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::life::Call;
use crate::line::Line;
use crate::outgoing::Chunks;
use crate::receive::Held;

/// A batch under way. When it is dropped, those who waited for it go.
pub(super) struct Flight {
    gateway: Arc<Gateway>,
    line: Arc<Line>,
    rules: Rules,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.line.gathering.0.lock().landed();
        dispatch(&self.gateway, &self.line, self.rules);
    }
}

/// Sends off all batches that have to go now.
pub(super) fn dispatch(gateway: &Arc<Gateway>, line: &Arc<Line>, rules: Rules) {
    // A revision whose queue another gateway has by now still answers those it gathered.
    let bounds = rules.bounds(line.flights().unwrap_or(1));
    loop {
        let batch = line.gathering.0.lock().next(&bounds, now());
        let Some(batch) = batch else { return };
        let flight = Flight {
            gateway: Arc::clone(gateway),
            line: Arc::clone(line),
            rules,
        };
        launch(batch, flight);
    }
}

fn launch(mut batch: Vec<Member>, flight: Flight) {
    if batch.len() > 1 {
        // Without a runtime the process ends, and nobody waits any more.
        if let Ok(runtime) = Handle::try_current() {
            let batches = flight.gateway.batches.clone();
            batches.spawn_on(fly(batch, flight), &runtime);
        }
    } else if let Some(only) = batch.pop() {
        only.go_alone(Some(flight));
    }
}

/// Brings a batch to a replica and its answer to its members; ends early if they all leave.
async fn fly(mut members: Vec<Member>, flight: Flight) {
    let gateway = Arc::clone(&flight.gateway);
    gateway.requests.count_batch(members.len());
    let (call, held) = merged(&gateway, &members);
    let landed = tokio::select! {
        biased;
        landed = land(&gateway, call, held) => landed,
        () = all_left(&mut members) => return,
    };
    // The replica is free: whoever waits need not wait for us to take the answer apart.
    drop(flight);
    hand_out(members, landed);
}

/// A batch's answer, read to its end.
async fn land(gateway: &Gateway, call: Call, mut held: Held) -> Result<Fate, GatewayError> {
    let wire = call.wire;
    let response = gateway.carry(&call, &mut held).await?;
    // Nobody asks for it again.
    drop(held);
    let (head, body) = response.into_parts();
    let whole = read(gateway, head, body).await;
    Ok(match whole {
        Some(whole) => Fate::of(wire, whole),
        None => Fate::Broken,
    })
}

/// `None` for an answer that breaks off or is too large to be kept.
async fn read(gateway: &Gateway, head: Parts, mut body: Answer) -> Option<Whole> {
    let (mut chunks, mut trailers) = (Chunks::new(), HeaderMap::new());
    let mut portion = gateway.buffers.portion();
    while let Some(frame) = body.frame().await {
        match frame.ok()?.into_data() {
            Ok(data) => {
                if portion.grow(data.len()) == Grown::No {
                    return None;
                }
                chunks.push(data);
            }
            Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
        }
    }
    let body = match &chunks[..] {
        [only] => only.clone(),
        several => several.concat().into(),
    };
    Some(Whole {
        head,
        body,
        trailers,
    })
}

/// One request for all members. It counts from the last one's arrival, and has the time of the one that
/// has most; whose time is over before that leaves by itself.
fn merged(gateway: &Gateway, members: &[Member]) -> (Call, Held) {
    let parts: Vec<&Part> = members.iter().map(|member| &member.part).collect();
    let merged = Part::merge(&parts);
    let first = &members[0].call;
    let mut arrivals: Vec<Instant> = members.iter().map(|member| member.call.arrived).collect();
    arrivals.sort_unstable();
    let last = arrivals.pop().unwrap_or(first.arrived);
    let deadlines: Option<Vec<Instant>> = members.iter().map(|one| one.call.deadline).collect();
    let deadline = deadlines.and_then(|all| all.into_iter().max());
    let call = first.for_batch(headers_of(first, &merged), last, deadline, arrivals.into());
    (call, Held::made(merged.chunks, &gateway.buffers))
}

async fn all_left(members: &mut [Member]) {
    for member in members {
        member.tell.closed().await;
    }
}
