//! A discrete-event simulation of one revision: one queue, late binding, replicas that take time to start.
//! The control law is the one that the autoscaler runs.

mod arrivals;
mod replicas;
mod state;

use std::time::Duration;

use weir_cluster::{Histogram, ScalingPolicy};

pub use arrivals::poisson;

use self::state::State;
use crate::{Decision, Memory, Sample, decide};

/// The simulated revision, but for the requests that come.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// Service times of a replica.
    pub service: Service,
    /// Requests that a replica takes at once.
    pub credits: u32,
    /// How long a start takes.
    pub cold_start: Duration,
    /// Replicas that are ready at the beginning.
    pub replicas: u32,
    /// Time between decisions; a request at zero causes one at once.
    pub period: Duration,
}

/// Service times of a replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Each takes this long, however many there are.
    Each(Duration),
    /// When free it takes all that wait, up to its credits, as one batch.
    Batched {
        /// The time of any batch.
        fixed: Duration,
        /// The time that each request of it adds.
        each: Duration,
    },
}

/// Record of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The state after each decision.
    pub frames: Vec<Frame>,
    /// The requests that reached a replica, in that order.
    pub served: Vec<Served>,
    /// Times that they waited.
    pub queue_delay: Histogram,
    /// Requests that still wait at the end.
    pub waiting: usize,
    /// Replicas that were started.
    pub starts: u32,
    /// The time of all replicas together, from the start they were asked for to their end.
    pub replica_time: Duration,
}

/// The state after one decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Time of the decision.
    pub at: Duration,
    /// The decision that was made.
    pub decision: Decision,
    /// Replicas that take requests.
    pub ready: u32,
    /// Requests in the queue.
    pub queued: u32,
    /// Requests at a replica.
    pub in_flight: u32,
}

/// A request that reached a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Time of its arrival.
    pub arrived: Duration,
    /// Time that it waited.
    pub waited: Duration,
}

/// Runs the world from time zero until `until`, with requests at these times (in order) and replicas as
/// the law says.
pub fn simulate(
    world: &World,
    arrivals: &[Duration],
    until: Duration,
    law: &mut dyn FnMut(&Sample) -> Decision,
) -> Run {
    let mut state = State::new(world.clone(), law);
    let mut arrivals = arrivals.iter().copied().peekable();
    loop {
        let event = state.next_event();
        match arrivals.peek() {
            Some(at) if *at > until && event > until => break,
            None if event > until => break,
            Some(at) if *at <= event => {
                state.arrive(*at);
                arrivals.next();
            }
            Some(_) | None => state.advance(),
        }
    }
    state.end(until)
}

/// [`decide`] as a law for [`simulate`]: it keeps the memory.
pub fn law(policy: ScalingPolicy) -> impl FnMut(&Sample) -> Decision {
    let mut memory = Memory::default();
    move |sample| {
        let (next, decision) = decide(&policy, std::mem::take(&mut memory), sample);
        memory = next;
        decision
    }
}
