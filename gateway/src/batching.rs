//! Batches for runtimes that do not batch: requests of one revision that are alike share one.
//!
//! ```text
//!   request ─► part ─► gatherer ─┬─► alone: goes as it came
//!                (alike? rows?)  └─► flight: merge ─► queue, credit, replica ─► cut ─► each its rows
//! ```
//!
//! Bodies are parsed here and nowhere else in the gateway, and only where a route asks for batches. What
//! cannot be merged goes as if nobody had asked.

mod cuts;
mod flight;
mod gatherer;
mod member;
mod message;
mod part;
mod share;
mod template;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Response;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use weir_cluster::Route;

use crate::answer::Answer;
use crate::clock::{now, until};
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::life::Call;
use crate::line::{Line, Verdict};
use crate::receive::Held;
use gatherer::{Bounds, Entry, Gatherer};
use member::{Member, Turn};
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
pub(crate) struct Gathering(Mutex<Gatherer<Key, Member>>);

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
    mut call: Call,
    mut held: Held,
    rules: Rules,
) -> Result<Response<Answer>, GatewayError> {
    let line = Arc::clone(&call.line);
    // Where another gateway has the queue, it gathers for all.
    let Some(flights) = line.flights() else {
        return gateway.carry(&call, &mut held).await;
    };
    let Some(part) = Part::read(&call, &held) else {
        return gateway.carry(&call, &mut held).await;
    };
    line.count_arrival();
    call.count_as_arrived();
    let (tell, mut told) = oneshot::channel();
    let times = Times::of(&call);
    let member = Member::new(call, held, part, tell);
    let place = join(member, &line, &rules.bounds(flights), times.gathered);
    let place = place.inspect_err(|_| line.count_refused())?;
    flight::dispatch(gateway, &line, rules);
    let turn = wait(gateway, &line, rules, &mut told, times).await;
    drop(place);
    end(gateway, &line, turn).await
}

/// A place among those who gather, given up when it is dropped.
struct Place {
    line: Arc<Line>,
    ticket: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.line.gathering.0.lock().forget(self.ticket);
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
    fn of(call: &Call) -> Self {
        Self {
            arrived: call.arrived,
            gathered: now(),
            deadline: call.deadline,
        }
    }
}

fn join(
    member: Member,
    line: &Arc<Line>,
    bounds: &Bounds,
    at: Instant,
) -> Result<Place, GatewayError> {
    let entry = Entry {
        key: member.key(),
        rows: member.part.rows(),
        item: member,
    };
    let mut gatherer = line.gathering.0.lock();
    let admitted = gatherer.admit(entry, at, bounds);
    let waiting = gatherer.waiting();
    drop(gatherer);
    match admitted {
        Ok(ticket) => Ok(Place {
            line: Arc::clone(line),
            ticket,
        }),
        Err(member) => Err(GatewayError::QueueFull {
            revision: line.name.to_string(),
            requests: waiting,
            bytes: member.held.size(),
        }),
    }
}

/// Waits for its turn; whoever waits is also the clock of the batch that it would begin.
async fn wait(
    gateway: &Arc<Gateway>,
    line: &Arc<Line>,
    rules: Rules,
    told: &mut oneshot::Receiver<Turn>,
    times: Times,
) -> Result<Turn, GatewayError> {
    let late = || GatewayError::LateInQueue {
        revision: line.name.to_string(),
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
                flight::dispatch(gateway, line, rules);
                continue;
            }
        };
        // Nobody drops a member whose turn it still is, but the end of the process.
        return turn.map_err(|_| GatewayError::Gone(line.name.to_string()));
    }
}

/// What it gets, counted.
async fn end(
    gateway: &Arc<Gateway>,
    line: &Arc<Line>,
    turn: Result<Turn, GatewayError>,
) -> Result<Response<Answer>, GatewayError> {
    let (answer, verdict) = match turn {
        Ok(Turn::Alone {
            call,
            mut held,
            flight,
        }) => {
            let answer = gateway.carry(&call, &mut held).await;
            drop(flight);
            let is_refused = matches!(answer, Err(GatewayError::QueueFull { .. }));
            if is_refused {
                line.count_refused();
            }
            return answer;
        }
        Ok(Turn::Answered(response, verdict)) => (Ok(response), verdict),
        Ok(Turn::Failed(error)) | Err(error) => (Err(error), Verdict::Failed),
    };
    match &answer {
        Err(GatewayError::QueueFull { .. }) => line.count_refused(),
        Err(GatewayError::NotOwner(_)) => {}
        Ok(_) | Err(_) => line.count_member(verdict),
    }
    answer
}
