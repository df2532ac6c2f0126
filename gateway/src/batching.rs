//! Batches for runtimes that do not batch: requests of one revision that are alike share one.
//!
//! ```text
//!   request ─► part ─► gatherer ─┬─► alone: goes as it came
//!                (alike? rows?)  └─► flight: merge ─► queue, credit, replica ─► cut ─► each its rows
//! ```
//!
//! Bodies are parsed here and nowhere else in the gateway, and only where a route asks for batches. What
//! cannot be merged goes as if nobody had asked.

mod entry;
mod gatherer;
mod in_flight;
mod message;
mod outcome;
mod part;
mod slices;
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
use crate::clock::{now, until};
use crate::error::GatewayError;
use crate::forward::DownstreamBody;
use crate::forward::ProxyRequest;
use crate::gateway::Gateway;
use crate::queue::{RevisionQueue, Verdict};
use entry::{BatchEntry, EntryResult};
use gatherer::{Bounds, Entry, Gatherer};
use part::{Key, Part};

/// What a route says of batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    rows: usize,
    wait: Duration,
    room: usize,
}

/// Those who gather at one revision.
#[derive(Default)]
pub(crate) struct Gathering(Mutex<Gatherer<Key, BatchEntry>>);

impl Rules {
    /// `None` where the route does not ask for batches.
    pub(crate) fn of(route: &Route) -> Option<Self> {
        let batching = route.batching?;
        Some(Self {
            rows: batching.max_size as usize,
            wait: batching.max_latency,
            room: route.max_queue as usize,
        })
    }

    fn bounds(self, flights: usize) -> Bounds {
        Bounds {
            rows: self.rows,
            wait: self.wait,
            flights,
            room: self.room,
        }
    }
}

impl Gathering {
    /// How many wait for others.
    pub(crate) fn waiting(&self) -> usize {
        self.0.lock().waiting()
    }
}

/// Brings a request to a replica, in a batch or alone, and returns its own answer.
pub(crate) async fn deliver(
    gateway: &Arc<Gateway>,
    mut request: ProxyRequest,
    mut buffered: BufferedBody,
    rules: Rules,
) -> Result<Response<DownstreamBody>, GatewayError> {
    let queue = Arc::clone(&request.queue);
    // Where another gateway has the queue, it gathers for all.
    let Some(flights) = queue.flights() else {
        return gateway.forward(&request, &mut buffered).await;
    };
    let Some(part) = Part::read(&request, &buffered) else {
        return gateway.forward(&request, &mut buffered).await;
    };
    queue.count_arrival();
    request.count_as_arrived();
    let (tell, mut told) = oneshot::channel();
    let times = Times::of(&request);
    let entry = BatchEntry::new(request, buffered, part, tell);
    let sequence = join(entry, &queue, &rules.bounds(flights), times.gathered);
    let sequence = sequence.inspect_err(|_| queue.count_refused())?;
    in_flight::dispatch(gateway, &queue, rules);
    let turn = wait(gateway, &queue, rules, &mut told, times).await;
    drop(sequence);
    end(gateway, &queue, turn).await
}

/// A place among those who gather, given up when it is dropped.
struct BatchPlace {
    queue: Arc<RevisionQueue>,
    ticket: u64,
}

impl Drop for BatchPlace {
    fn drop(&mut self) {
        self.queue.gathering.0.lock().forget(self.ticket);
    }
}

/// When a request came, when it began to wait for others, and when it has to be done.
#[derive(Clone, Copy)]
struct Times {
    arrived: Instant,
    gathered: Instant,
    deadline: Option<Instant>,
}

impl Times {
    fn of(request: &ProxyRequest) -> Self {
        Self {
            arrived: request.arrived,
            gathered: now(),
            deadline: request.deadline,
        }
    }
}

fn join(
    entry: BatchEntry,
    queue: &Arc<RevisionQueue>,
    bounds: &Bounds,
    at: Instant,
) -> Result<BatchPlace, GatewayError> {
    let entry = Entry {
        key: entry.key(),
        rows: entry.part.rows(),
        item: entry,
    };
    let mut gatherer = queue.gathering.0.lock();
    let admitted = gatherer.admit(entry, at, bounds);
    let waiting = gatherer.waiting();
    drop(gatherer);
    match admitted {
        Ok(ticket) => Ok(BatchPlace {
            queue: Arc::clone(queue),
            ticket,
        }),
        Err(entry) => Err(GatewayError::QueueFull {
            revision: queue.name.to_string(),
            requests: waiting,
            bytes: entry.buffered.size(),
        }),
    }
}

/// Waits for its turn; whoever waits is also the clock of the batch that it would begin.
async fn wait(
    gateway: &Arc<Gateway>,
    queue: &Arc<RevisionQueue>,
    rules: Rules,
    told: &mut oneshot::Receiver<EntryResult>,
    times: Times,
) -> Result<EntryResult, GatewayError> {
    let late = || GatewayError::LateInQueue {
        revision: queue.name.to_string(),
        waited: now().saturating_duration_since(times.arrived),
        ahead: 0,
    };
    let mut due = Some(times.gathered + rules.wait);
    loop {
        let turn = tokio::select! {
            biased;
            turn = &mut *told => turn,
            () = until(times.deadline) => return Err(late()),
            () = until(due) => {
                due = None;
                in_flight::dispatch(gateway, queue, rules);
                continue;
            }
        };
        // Nobody drops a member whose turn it still is, but the end of the process.
        return turn.map_err(|_| GatewayError::Gone(queue.name.to_string()));
    }
}

/// What it gets, counted.
async fn end(
    gateway: &Arc<Gateway>,
    queue: &Arc<RevisionQueue>,
    turn: Result<EntryResult, GatewayError>,
) -> Result<Response<DownstreamBody>, GatewayError> {
    let (answer, verdict) = match turn {
        Ok(EntryResult::Alone {
            request,
            mut buffered,
            in_flight,
        }) => {
            let answer = gateway.forward(&request, &mut buffered).await;
            drop(in_flight);
            let is_refused = matches!(answer, Err(GatewayError::QueueFull { .. }));
            if is_refused {
                queue.count_refused();
            }
            return answer;
        }
        Ok(EntryResult::Answered(response, verdict)) => (Ok(response), verdict),
        Ok(EntryResult::Failed(error)) | Err(error) => (Err(error), Verdict::Failed),
    };
    match &answer {
        Err(GatewayError::QueueFull { .. }) => queue.count_refused(),
        Err(GatewayError::NotOwner(_)) => {}
        Ok(_) | Err(_) => queue.count_batch_entry(verdict),
    }
    answer
}
