//! Batches requests for runtimes that do not batch: compatible requests to one revision are merged into one.
//!
//! ```text
//!   request ─► parse ─► batch queue ─┬─► alone: forwarded unchanged
//!             (key, rows)            └─► merge ─► queue, credit, replica ─► split ─► a response per request
//! ```
//!
//! Only this module of the gateway parses bodies, and only if a route sets `spec.predictor.batcher`. Requests that
//! cannot be merged are forwarded unchanged.

mod dispatch;
mod entry;
mod message;
mod queue;
mod request;
mod response;
mod rows;
mod template;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::Response;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use weir_cluster::{RevisionName, Route};

use crate::body::{BufferedBody, DownstreamBody};
use crate::clock::{now, until};
use crate::context::Context;
use crate::error::GatewayError;
use crate::pipeline::forward::{self, BatchPlace, ProxyRequest, forward};
use crate::queue::{QueueLimit, RevisionQueue, Verdict};
use entry::{BatchEntry, EntryResult};
use queue::{BatchLimits, BatchQueue, NewEntry};
use request::{BatchKey, ParsedRequest};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Batching settings of one route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSettings {
    max_rows: usize,
    max_delay: Duration,
}

/// Forms and sends the batches of all revisions.
pub(crate) struct Batching {
    context: Arc<Context>,
    batchers: ArcSwap<HashMap<RevisionName, Arc<Batcher>>>,
    /// Tasks of all batches in flight.
    tasks: TaskTracker,
}

/// The batch queue of one revision.
struct Batcher {
    context: Arc<Context>,
    /// Tasks of all batches in flight.
    tasks: TaskTracker,
    queue: Weak<RevisionQueue>,
    entries: Mutex<BatchQueue<BatchKey, BatchEntry>>,
}

impl BatchSettings {
    /// Returns the settings of a route; `None` if the route has no batcher.
    pub(crate) fn of(route: &Route) -> Option<Self> {
        let batching = route.batching?;
        Some(Self { max_rows: batching.max_size as usize, max_delay: batching.max_latency })
    }

    fn limits(self, max_in_flight: usize, queue: QueueLimit) -> BatchLimits {
        BatchLimits { max_rows: self.max_rows, max_delay: self.max_delay, max_in_flight, queue }
    }
}

impl Batching {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, batchers: ArcSwap::default(), tasks: TaskTracker::new() }
    }

    /// Waits for the batches in flight.
    pub(crate) async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Returns the batcher of a revision's queue, which is created for the first request.
    fn batcher(&self, queue: &Arc<RevisionQueue>) -> Arc<Batcher> {
        if let Some(batcher) = self.batchers.load().get(&queue.name)
            && batcher.is_of(queue)
        {
            return Arc::clone(batcher);
        }
        let new = Arc::new(Batcher::new(&self.context, &self.tasks, queue));
        self.batchers.rcu(|batchers| {
            let live = batchers.iter().filter(|(_, batcher)| batcher.has_queue());
            let mut next: HashMap<_, _> = live.map(|(k, v)| (k.clone(), Arc::clone(v))).collect();
            match next.get(&queue.name) {
                Some(other) if other.is_of(queue) => {}
                Some(_) | None => {
                    next.insert(queue.name.clone(), Arc::clone(&new));
                }
            }
            next
        });
        self.batchers.load().get(&queue.name).map_or(new, Arc::clone)
    }

    /// Sends a request to a replica, in a batch or alone, and returns the request's own response.
    pub(crate) async fn forward(
        &self,
        mut request: ProxyRequest,
        mut buffered: BufferedBody,
        settings: BatchSettings,
    ) -> Result<Response<DownstreamBody>, GatewayError> {
        let queue = Arc::clone(&request.queue);
        // If another gateway owns the revision's queue, that gateway also forms the batches.
        let Some(max_in_flight) = queue.max_batches() else {
            return forward(&self.context, &request, &mut buffered).await;
        };
        let Some((parsed, key)) = run_in_place(buffered.size(), || {
            let parsed = ParsedRequest::read(&request, &buffered)?;
            let key = parsed.key(&request);
            Some((parsed, key))
        }) else {
            return forward(&self.context, &request, &mut buffered).await;
        };
        queue.may_wake(request.limited)?;
        queue.count_arrival();
        request.count_as_arrived();
        let batcher = self.batcher(&queue);
        let (reply, mut result) = oneshot::channel();
        let times = EntryTimes::of(&request);
        let entry = BatchEntry::new(request, buffered, parsed, reply);
        let place = entry.place.clone();
        let limits = settings.limits(max_in_flight, queue.limit());
        let entry = NewEntry { key, rows: entry.parsed.rows(), bytes: entry.buffered.size(), item: entry };
        let ticket = enqueue(entry, &batcher, &queue, &limits, times.queued).inspect_err(|_| queue.count_refused())?;
        dispatch::dispatch(&batcher, &queue, settings);
        let received = wait(&batcher, &queue, settings, &mut result, times).await;
        let result = received.unwrap_or_else(|| Err(late(&queue, times.since, &place)));
        drop(ticket);
        respond(&self.context, &queue, result, times.missed).await
    }
}

impl Batcher {
    fn new(context: &Arc<Context>, tasks: &TaskTracker, queue: &Arc<RevisionQueue>) -> Self {
        Self {
            context: Arc::clone(context),
            tasks: tasks.clone(),
            queue: Arc::downgrade(queue),
            entries: Mutex::default(),
        }
    }

    /// Returns true if the batcher belongs to this queue, and not to an earlier queue of the same revision.
    fn is_of(&self, queue: &Arc<RevisionQueue>) -> bool {
        self.queue.as_ptr() == Arc::as_ptr(queue)
    }

    /// Returns true while the revision's queue is in use.
    fn has_queue(&self) -> bool {
        self.queue.strong_count() > 0
    }

    /// Changes the batch queue, and updates the number of its requests in the revision's queue.
    fn update<T>(&self, queue: &RevisionQueue, change: impl FnOnce(&mut BatchQueue<BatchKey, BatchEntry>) -> T) -> T {
        let mut entries = self.entries.lock();
        let changed = change(&mut entries);
        queue.set_batching(entries.content().requests);
        changed
    }
}

/// A request's entry in the batch queue, which is removed when the ticket is dropped.
struct QueueTicket {
    batcher: Arc<Batcher>,
    queue: Arc<RevisionQueue>,
    ticket: u64,
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        self.batcher.update(&self.queue, |batches| batches.remove(self.ticket));
    }
}

/// Times of one request: the time from which it waits, its entry into the batch queue, and its deadline.
#[derive(Clone, Copy)]
struct EntryTimes {
    since: Instant,
    queued: Instant,
    deadline: Option<Instant>,
    /// Verdict under which the request is counted if its deadline passes.
    missed: Verdict,
}

impl EntryTimes {
    fn of(request: &ProxyRequest) -> Self {
        Self { since: request.queued_since, queued: now(), deadline: request.deadline, missed: request.missed }
    }
}

/// Adds an entry to the batch queue.
///
/// # Errors
/// [`GatewayError::QueueFull`] if the batch queue is full.
fn enqueue(
    entry: NewEntry<BatchKey, BatchEntry>,
    batcher: &Arc<Batcher>,
    queue: &Arc<RevisionQueue>,
    limits: &BatchLimits,
    at: Instant,
) -> Result<QueueTicket, GatewayError> {
    let (admitted, queued) = batcher.update(queue, |batches| (batches.admit(entry, at, limits), batches.content()));
    match admitted {
        Ok(ticket) => Ok(QueueTicket { batcher: Arc::clone(batcher), queue: Arc::clone(queue), ticket }),
        Err(_) => Err(GatewayError::QueueFull {
            revision: queue.name.to_string(),
            requests: queued.requests,
            bytes: queued.bytes,
            failure: queue.failure_clause(),
        }),
    }
}

/// Waits until the entry is dispatched. When the entry has waited for `max_delay`, this dispatches the batches that are
/// due, so the batch queue needs no timer task. Returns `None` if the entry's deadline passes first.
async fn wait(
    batcher: &Arc<Batcher>,
    queue: &Arc<RevisionQueue>,
    settings: BatchSettings,
    result: &mut oneshot::Receiver<EntryResult>,
    times: EntryTimes,
) -> Option<Result<EntryResult, GatewayError>> {
    let mut due = Some(times.queued + settings.max_delay);
    loop {
        let received = tokio::select! {
            biased;
            received = &mut *result => received,
            () = until(times.deadline) => return None,
            () = until(due) => {
                due = None;
                dispatch::dispatch(batcher, queue, settings);
                continue;
            }
        };
        // An entry is dropped without an outcome only if the process ends.
        return Some(received.map_err(|_| GatewayError::Gone(queue.name.to_string())));
    }
}

/// Returns the error of an entry whose deadline has passed.
fn late(queue: &RevisionQueue, queued_since: Instant, place: &BatchPlace) -> GatewayError {
    let (revision, at) = (queue.name.to_string(), now());
    match place.replica() {
        Some((replica, since)) => GatewayError::LateAtReplica {
            revision,
            replica,
            queued: since.saturating_duration_since(queued_since),
            waited: at.saturating_duration_since(since),
        },
        None => GatewayError::LateInQueue {
            revision,
            waited: at.saturating_duration_since(queued_since),
            ahead: 0,
            failure: queue.failure_clause(),
        },
    }
}

/// Turns an entry's outcome into its response and counts it.
async fn respond(
    context: &Context,
    queue: &Arc<RevisionQueue>,
    result: Result<EntryResult, GatewayError>,
    missed: Verdict,
) -> Result<Response<DownstreamBody>, GatewayError> {
    let (response, verdict) = match result {
        Ok(EntryResult::Alone { request, mut buffered, in_flight }) => {
            let response = forward(context, &request, &mut buffered).await;
            drop(in_flight);
            let is_refused = response.as_ref().is_err_and(GatewayError::is_full_queue);
            if is_refused {
                queue.count_refused();
            }
            return response;
        }
        Ok(EntryResult::Answered(response, verdict)) => (Ok(response), verdict),
        Ok(EntryResult::Failed(error)) | Err(error) => {
            let verdict = forward::verdict(&error, missed);
            forward::log_failed(queue, &error, verdict);
            (Err(error), verdict)
        }
    };
    match &response {
        Err(error) if error.is_full_queue() => queue.count_refused(),
        Ok(_) | Err(_) => queue.count(verdict),
    }
    response
}

/// A batch in flight. Dropping the guard dispatches the batches that waited for its end.
struct InFlightBatch {
    batcher: Arc<Batcher>,
    queue: Arc<RevisionQueue>,
    settings: BatchSettings,
}

impl Drop for InFlightBatch {
    fn drop(&mut self) {
        self.batcher.update(&self.queue, |batches| batches.complete());
        dispatch::dispatch(&self.batcher, &self.queue, self.settings);
    }
}

/// Size in bytes above which another thread takes over this thread's tasks while a body is parsed. Parsing the numbers
/// of a tensor takes some 10 ms per MiB, during which no other connection would be served.
const LARGE: usize = 256 << 10;

/// Runs the work on a body of this many bytes. Work that takes milliseconds does not block the other tasks of its thread.
fn run_in_place<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > LARGE && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}
