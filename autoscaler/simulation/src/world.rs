//! Discrete-event simulation of one revision: one queue, late binding of requests to replicas, and replicas that take
//! time to start on a possibly limited number of GPUs.

mod engine;
mod estimate;
mod gpus;
mod replicas;
mod run;
mod state;

use std::ops::Range;
use std::time::Duration;

pub use run::{Frame, Run, Wait};

use self::state::State;
use crate::{Lengths, Policy, Service};

/// The simulated revision and its machines, without the requests.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// Service times of a replica.
    pub service: Service,
    /// Lengths of the requests. Batches ignore them: a batch is as long as its number of requests.
    pub lengths: Lengths,
    /// Start times, and failures of starts.
    pub starts: Starts,
    /// Machines on which replicas run.
    pub machines: Machines,
    /// Replicas that are ready at the beginning.
    pub replicas: u32,
    /// Fewest replicas; a lower number from the policy is raised to it.
    pub least: u32,
    /// Most replicas; a higher number from the policy is lowered to it.
    pub most: u32,
    /// Time between decisions. A request at zero replicas causes an additional one at once.
    pub period: Duration,
    /// Share of replicas that are slow, and the factor of their service times.
    pub slow: (f64, f64),
    /// Times in which every replica is slower, each with the factor.
    pub slowdowns: Vec<(Range<Duration>, f64)>,
    /// Times in which no gateway reports.
    pub silences: Vec<Range<Duration>>,
    /// Seed of the random faults.
    pub seed: u64,
}

/// Start times, and failures of starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Starts {
    /// Time of a start once a GPU is available. A policy assumes it before the first start is measured.
    pub time: Duration,
    /// Measured start times, used in turn and then again from the first. If empty, every start takes `time`.
    pub measured: Vec<Duration>,
    /// Share of starts that fail at their end, and are retried on the same GPU.
    pub failing: f64,
    /// Share of starts that never finish.
    pub endless: f64,
}

/// Machines for the replicas: nodes with one GPU each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machines {
    /// Number of GPUs; `None` sets no limit.
    pub gpus: Option<u32>,
    /// Time until a new node is up, before a replica can start on it.
    pub node_start: Duration,
    /// Time that a node stays up, and is paid for, after its replica ended.
    pub linger: Duration,
    /// Number of GPUs that all replicas share by time-slicing; `None` gives each replica its own.
    pub time_sliced: Option<u32>,
    /// Cheaper GPUs that may be reclaimed.
    pub spot: Option<SpotGpus>,
}

/// Cheaper GPUs that may be reclaimed; they are used first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpotGpus {
    /// Number of spot GPUs.
    pub count: u32,
    /// Average time until a spot GPU is reclaimed.
    pub life: Duration,
}

impl Starts {
    /// Returns the time of a start by its index (0 is the first).
    fn time_of(&self, index: usize) -> Duration {
        let turn = index.checked_rem(self.measured.len());
        turn.map_or(self.time, |turn| self.measured[turn])
    }
}

impl World {
    /// Default maximum of replicas.
    pub const MOST: u32 = 100;

    /// Creates a world without faults and with unlimited machines.
    #[must_use]
    pub fn new(service: Service, cold_start: Duration) -> Self {
        Self {
            service,
            lengths: Lengths::Equal,
            starts: Starts { time: cold_start, measured: Vec::new(), failing: 0.0, endless: 0.0 },
            machines: Machines::default(),
            replicas: 0,
            least: 0,
            most: Self::MOST,
            period: Duration::from_secs(1),
            slow: (0.0, 1.0),
            slowdowns: Vec::new(),
            silences: Vec::new(),
            seed: 1,
        }
    }

    /// Runs the world from time zero until `until`, with these arrival times (in order) and the replicas that the
    /// policy decides.
    pub fn run(&self, arrivals: &[Duration], until: Duration, policy: &mut dyn Policy) -> Run {
        let mut state = State::new(self, policy);
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

    fn factor(&self, now: Duration) -> f64 {
        let slowdown = self.slowdowns.iter().find(|(when, _)| when.contains(&now));
        slowdown.map_or(1.0, |(_, factor)| *factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_starts_are_used_in_turn_and_then_again() {
        let second = Duration::from_secs(1);
        let service = Service::Each { time: second, most: 1 };
        let mut starts = World::new(service, 9 * second).starts;
        assert_eq!(starts.time_of(5), 9 * second);
        starts.measured = vec![2 * second, 4 * second];
        let times: Vec<_> = (0..3).map(|index| starts.time_of(index)).collect();
        assert_eq!(times, [2 * second, 4 * second, 2 * second]);
    }
}
