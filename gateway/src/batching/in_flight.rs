//! Batches under way.

use std::sync::Arc;
use std::time::Instant;

use http::HeaderMap;
use http::response::Parts;
use http_body_util::BodyExt;
use tokio::runtime::Handle;

use super::Rules;
use super::entry::BatchEntry;
use super::outcome::{BatchOutcome, Whole, hand_out};
use super::part::{Part, headers_of};
use crate::body::BufferedBody;
use crate::body::Grown;
use crate::clock::now;
use crate::error::GatewayError;
use crate::forward::DownstreamBody;
use crate::forward::ProxyRequest;
use crate::gateway::Gateway;
use crate::queue::RevisionQueue;
use crate::upstream::Chunks;

/// A batch under way. When it is dropped, those who waited for it go.
pub(super) struct InFlightBatch {
    gateway: Arc<Gateway>,
    queue: Arc<RevisionQueue>,
    rules: Rules,
}

impl Drop for InFlightBatch {
    fn drop(&mut self) {
        self.queue.gathering.0.lock().landed();
        dispatch(&self.gateway, &self.queue, self.rules);
    }
}

/// Sends off all batches that have to go now.
pub(super) fn dispatch(gateway: &Arc<Gateway>, queue: &Arc<RevisionQueue>, rules: Rules) {
    // A revision whose queue another gateway has by now still answers those it gathered.
    let bounds = rules.bounds(queue.flights().unwrap_or(1));
    loop {
        let batch = queue.gathering.0.lock().next(&bounds, now());
        let Some(batch) = batch else { return };
        let in_flight = InFlightBatch {
            gateway: Arc::clone(gateway),
            queue: Arc::clone(queue),
            rules,
        };
        launch(batch, in_flight);
    }
}

fn launch(mut batch: Vec<BatchEntry>, in_flight: InFlightBatch) {
    if batch.len() > 1 {
        // Without a runtime the process ends, and nobody waits any more.
        if let Ok(runtime) = Handle::try_current() {
            let batches = in_flight.gateway.batches.clone();
            batches.spawn_on(fly(batch, in_flight), &runtime);
        }
    } else if let Some(only) = batch.pop() {
        only.go_alone(Some(in_flight));
    }
}

/// Brings a batch to a replica and its answer to its members; ends early if they all leave.
async fn fly(mut entries: Vec<BatchEntry>, in_flight: InFlightBatch) {
    let gateway = Arc::clone(&in_flight.gateway);
    gateway.requests.count_batch(entries.len());
    let (request, buffered) = merged(&gateway, &entries);
    let landed = tokio::select! {
        biased;
        landed = land(&gateway, request, buffered) => landed,
        () = all_left(&mut entries) => return,
    };
    // The replica is free: whoever waits need not wait for us to take the answer apart.
    drop(in_flight);
    hand_out(entries, landed);
}

/// A batch's answer, read to its end.
async fn land(
    gateway: &Gateway,
    request: ProxyRequest,
    mut buffered: BufferedBody,
) -> Result<BatchOutcome, GatewayError> {
    let protocol = request.protocol;
    let response = gateway.forward(&request, &mut buffered).await?;
    // Nobody asks for it again.
    drop(buffered);
    let (head, body) = response.into_parts();
    let whole = read(gateway, head, body).await;
    Ok(match whole {
        Some(whole) => BatchOutcome::of(protocol, whole),
        None => BatchOutcome::Broken,
    })
}

/// `None` for an answer that breaks off or is too large to be kept.
async fn read(gateway: &Gateway, head: Parts, mut body: DownstreamBody) -> Option<Whole> {
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
fn merged(gateway: &Gateway, entries: &[BatchEntry]) -> (ProxyRequest, BufferedBody) {
    let parts: Vec<&Part> = entries.iter().map(|entry| &entry.part).collect();
    let merged = Part::merge(&parts);
    let first = &entries[0].request;
    let mut arrivals: Vec<Instant> = entries.iter().map(|entry| entry.request.arrived).collect();
    arrivals.sort_unstable();
    let last = arrivals.pop().unwrap_or(first.arrived);
    let deadlines: Option<Vec<Instant>> = entries.iter().map(|one| one.request.deadline).collect();
    let deadline = deadlines.and_then(|all| all.into_iter().max());
    let request = first.for_batch(headers_of(first, &merged), last, deadline, arrivals.into());
    (request, BufferedBody::made(merged.chunks, &gateway.buffers))
}

async fn all_left(entries: &mut [BatchEntry]) {
    for entry in entries {
        entry.tell.closed().await;
    }
}
