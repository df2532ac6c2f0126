//! Dispatches batches: merges the requests, sends the batch, and splits the response.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use http::HeaderMap;
use http::response::Parts;
use http_body_util::BodyExt;
use tokio::runtime::Handle;
use weir_serve::byte_budget::BudgetPermit;

use super::entry::BatchEntry;
use super::request::{ParsedRequest, batch_headers};
use super::response::{BatchOutcome, BatchResponse, distribute};
use super::{BatchSettings, Batcher, InFlightBatch};
use crate::body::{BufferedBody, DownstreamBody};
use crate::clock::now;
use crate::context::Context;
use crate::error::GatewayError;
use crate::pipeline::forward::{BatchMembers, BatchReplica, ProxyRequest, forward, replica_of_batch};
use crate::queue::{ClientShare, RevisionQueue};
use crate::upstream::Chunks;

/// Dispatches all batches that are due.
pub(super) fn dispatch(batcher: &Arc<Batcher>, queue: &Arc<RevisionQueue>, settings: BatchSettings) {
    // Entries that wait here are dispatched even if another gateway has become the queue's owner.
    let limits = settings.limits(queue.max_batches().unwrap_or(1), queue.limit());
    loop {
        let batch = batcher.update(queue, |batches| batches.next(&limits, now()));
        let Some(batch) = batch else { return };
        let in_flight = InFlightBatch { batcher: Arc::clone(batcher), queue: Arc::clone(queue), settings };
        start(batch, in_flight);
    }
}

/// Starts one batch. A task sends a batch of several entries; a single entry is forwarded by the request's own task.
fn start(mut batch: Vec<BatchEntry>, in_flight: InFlightBatch) {
    if batch.len() > 1 {
        // Without a tokio runtime the process is ending, and no client waits for these requests any more.
        if let Ok(runtime) = Handle::try_current() {
            let tasks = in_flight.batcher.tasks.clone();
            tasks.spawn_on(send_batch(batch, in_flight), &runtime);
        }
    } else if let Some(only) = batch.pop() {
        only.forward_alone(Some(in_flight));
    }
}

/// Sends a batch to a replica, and to each entry its rows of the response. Stops if all clients disconnect.
async fn send_batch(mut entries: Vec<BatchEntry>, in_flight: InFlightBatch) {
    let context = Arc::clone(&in_flight.batcher.context);
    context.counters.count_batch(entries.len());
    let (request, buffered) = form_batch(&context, &entries);
    let outcome = tokio::select! {
        biased;
        outcome = exchange(&context, request, buffered) => outcome,
        () = all_disconnected(&mut entries) => return,
    };
    // The replica is free now, so the next batch does not wait until the response is split.
    drop(in_flight);
    distribute(entries, outcome);
}

/// Sends a batch and reads its response to the end.
async fn exchange(
    context: &Context,
    request: ProxyRequest,
    mut buffered: BufferedBody,
) -> Result<BatchOutcome, GatewayError> {
    let protocol = request.protocol;
    let response = forward(context, &request, &mut buffered).await?;
    // The request is not retried any more, so its memory is released before the response is read.
    drop(buffered);
    let (head, body) = response.into_parts();
    let permit = context.budget.permit_of(request.limited.map(ClientShare::holder));
    match read(permit, head, body).await {
        Ok(response) => Ok(BatchOutcome::of(protocol, response)),
        Err(error) => match replica_of_batch(&request, &error).await {
            BatchReplica::Failed(error) => Err(error),
            BatchReplica::Ended => Ok(BatchOutcome::ReplicaEnded),
            BatchReplica::Runs => Ok(BatchOutcome::Alone),
        },
    }
}

/// Reads the response to a batch. The bytes count against the byte budget until the clients have read their responses.
///
/// # Errors
/// An I/O error when the response breaks off or exceeds the byte budget.
async fn read(permit: BudgetPermit, head: Parts, mut body: DownstreamBody) -> io::Result<BatchResponse> {
    let (mut chunks, mut trailers) = (Chunks::new(), HeaderMap::new());
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(data) => {
                permit.grow(data.len()).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
                chunks.push(data);
            }
            Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
        }
    }
    let body = match &chunks[..] {
        [only] => only.clone(),
        several => several.concat().into(),
    };
    Ok(BatchResponse { head, body, trailers, permit: Arc::new(permit) })
}

/// Creates one request for all entries. The queue time is that of the last one, and the deadline is the latest one. An
/// entry whose own deadline passes earlier leaves the batch.
fn form_batch(context: &Context, entries: &[BatchEntry]) -> (ProxyRequest, BufferedBody) {
    let parsed: Vec<&ParsedRequest> = entries.iter().map(|entry| &entry.parsed).collect();
    let merged = ParsedRequest::merge(&parsed);
    let first = &entries[0].request;
    let mut queued: Vec<Instant> = entries.iter().map(|entry| entry.request.queued_since).collect();
    queued.sort_unstable();
    let last = queued.pop().unwrap_or(first.queued_since);
    let deadlines: Option<Vec<Instant>> = entries.iter().map(|one| one.request.deadline).collect();
    let deadline = deadlines.and_then(|all| all.into_iter().max());
    let places = entries.iter().map(|entry| entry.place.clone()).collect();
    let members = BatchMembers { others: queued, places };
    let request = first.for_batch(batch_headers(first, &merged), last, deadline, members);
    (request, BufferedBody::from_chunks(merged.chunks, &context.budget))
}

/// Returns once every entry's client has disconnected.
async fn all_disconnected(entries: &mut [BatchEntry]) {
    for entry in entries {
        entry.reply.closed().await;
    }
}
