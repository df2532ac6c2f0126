//! Batches for runtimes without batching: compatible requests of one revision are merged into one.
//!
//! ```text
//!   request ─► parse ─► batch queue ─┬─► alone: forwarded unchanged
//!             (key, rows)            └─► merge ─► queue, credit, replica ─► split ─► a response per request
//! ```
//!
//! Bodies are parsed here and nowhere else in the gateway, and only where a route sets `spec.predictor.batcher`.
//! Requests that cannot be merged are forwarded unchanged.

mod dispatch;
mod entry;
mod in_flight;
mod message;
mod queue;
mod request;
mod response;
mod rows;
mod template;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Response;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use weir_cluster::Route;

use crate::body::BufferedBody;
use crate::body::DownstreamBody;
use crate::clock::{now, until};
use crate::error::GatewayError;
use crate::forward::ProxyRequest;
use crate::gateway::Gateway;
use crate::queue::{RevisionQueue, Verdict};
use entry::{BatchEntry, EntryResult};
use queue::{BatchLimits, BatchQueue, NewEntry};
use request::{BatchKey, ParsedRequest};

/// A route's batching settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSettings {
    max_rows: usize,
    max_delay: Duration,
    max_queued: usize,
}

/// The batch queue of one revision.
#[derive(Default)]
pub(crate) struct Batcher(Mutex<BatchQueue<BatchKey, BatchEntry>>);

impl BatchSettings {
    /// The settings of a route; `None` where it has no batcher.
    pub(crate) fn of(route: &Route) -> Option<Self> {
        let batching = route.batching?;
        Some(Self {
            max_rows: batching.max_size as usize,
            max_delay: batching.max_latency,
            max_queued: route.max_queue as usize,
        })
    }

    fn limits(self, max_in_flight: usize) -> BatchLimits {
        BatchLimits {
            max_rows: self.max_rows,
            max_delay: self.max_delay,
            max_in_flight,
            max_queued: self.max_queued,
        }
    }
}

impl Batcher {
    /// Requests in the queue.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// Sends a request to a replica, in a batch or alone, and returns its own response.
pub(crate) async fn forward_batched(
    gateway: &Arc<Gateway>,
    mut request: ProxyRequest,
    mut buffered: BufferedBody,
    settings: BatchSettings,
) -> Result<Response<DownstreamBody>, GatewayError> {
    let queue = Arc::clone(&request.queue);
    // Where another gateway owns the revision's queue, it also forms the batches.
    let Some(max_in_flight) = queue.flights() else {
        return gateway.forward(&request, &mut buffered).await;
    };
    let Some(parsed) = ParsedRequest::read(&request, &buffered) else {
        return gateway.forward(&request, &mut buffered).await;
    };
    queue.count_arrival();
    request.count_as_arrived();
    let (reply, mut result) = oneshot::channel();
    let times = EntryTimes::of(&request);
    let entry = BatchEntry::new(request, buffered, parsed, reply);
    let ticket = enqueue(entry, &queue, &settings.limits(max_in_flight), times.queued);
    let ticket = ticket.inspect_err(|_| queue.count_refused())?;
    dispatch::dispatch(gateway, &queue, settings);
    let result = wait(gateway, &queue, settings, &mut result, times).await;
    drop(ticket);
    respond(gateway, &queue, result).await
}

/// A request's entry in the batch queue, removed when this is dropped.
struct QueueTicket {
    queue: Arc<RevisionQueue>,
    ticket: u64,
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        self.queue.batcher.0.lock().remove(self.ticket);
    }
}

/// Times of one request: its arrival, its entry into the batch queue, and its deadline.
#[derive(Clone, Copy)]
struct EntryTimes {
    arrived: Instant,
    queued: Instant,
    deadline: Option<Instant>,
}

impl EntryTimes {
    fn of(request: &ProxyRequest) -> Self {
        Self {
            arrived: request.arrived,
            queued: now(),
            deadline: request.deadline,
        }
    }
}

/// Adds an entry to the batch queue.
///
/// # Errors
/// [`GatewayError::QueueFull`].
fn enqueue(
    entry: BatchEntry,
    queue: &Arc<RevisionQueue>,
    limits: &BatchLimits,
    at: Instant,
) -> Result<QueueTicket, GatewayError> {
    let entry = NewEntry {
        key: entry.key(),
        rows: entry.parsed.rows(),
        item: entry,
    };
    let mut batches = queue.batcher.0.lock();
    let admitted = batches.admit(entry, at, limits);
    let queued = batches.len();
    drop(batches);
    match admitted {
        Ok(ticket) => Ok(QueueTicket {
            queue: Arc::clone(queue),
            ticket,
        }),
        Err(entry) => Err(GatewayError::QueueFull {
            revision: queue.name.to_string(),
            requests: queued,
            bytes: entry.buffered.size(),
        }),
    }
}

/// Waits until the entry is dispatched. Each waiting request is also the timer of the batch that it would start.
async fn wait(
    gateway: &Arc<Gateway>,
    queue: &Arc<RevisionQueue>,
    settings: BatchSettings,
    result: &mut oneshot::Receiver<EntryResult>,
    times: EntryTimes,
) -> Result<EntryResult, GatewayError> {
    let late = || GatewayError::LateInQueue {
        revision: queue.name.to_string(),
        waited: now().saturating_duration_since(times.arrived),
        ahead: 0,
    };
    let mut due = Some(times.queued + settings.max_delay);
    loop {
        let received = tokio::select! {
            biased;
            received = &mut *result => received,
            () = until(times.deadline) => return Err(late()),
            () = until(due) => {
                due = None;
                dispatch::dispatch(gateway, queue, settings);
                continue;
            }
        };
        // Entries are dropped without an outcome only when the process ends.
        return received.map_err(|_| GatewayError::Gone(queue.name.to_string()));
    }
}

/// Turns an entry's outcome into its response, and counts it.
async fn respond(
    gateway: &Arc<Gateway>,
    queue: &Arc<RevisionQueue>,
    result: Result<EntryResult, GatewayError>,
) -> Result<Response<DownstreamBody>, GatewayError> {
    let (response, verdict) = match result {
        Ok(EntryResult::Alone {
            request,
            mut buffered,
            in_flight,
        }) => {
            let response = gateway.forward(&request, &mut buffered).await;
            drop(in_flight);
            let is_refused = matches!(response, Err(GatewayError::QueueFull { .. }));
            if is_refused {
                queue.count_refused();
            }
            return response;
        }
        Ok(EntryResult::Answered(response, verdict)) => (Ok(response), verdict),
        Ok(EntryResult::Failed(error)) | Err(error) => (Err(error), Verdict::Failed),
    };
    match &response {
        Err(GatewayError::QueueFull { .. }) => queue.count_refused(),
        Err(GatewayError::NotOwner(_)) => {}
        Ok(_) | Err(_) => queue.count_batch_entry(verdict),
    }
    response
}
