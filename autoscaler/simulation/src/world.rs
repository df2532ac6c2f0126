//! A discrete-event simulation of one revision: one queue, late binding, replicas that take time to start on GPUs
//! that may be few.

mod estimate;
mod gpus;
mod replicas;
mod run;
mod state;

use std::ops::Range;
use std::time::Duration;

pub use run::{Frame, Run, Wait};

use self::state::State;
use crate::{Policy, Service};

/// The simulated revision and the machines it runs on, but for the requests that come.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// What a replica does in which time.
    pub service: Service,
    /// How long starts take and how they fail.
    pub starts: Starts,
    /// The machines that replicas run on.
    pub machines: Machines,
    /// Replicas that are ready at the beginning.
    pub replicas: u32,
    /// Fewest replicas, whatever a policy asks for.
    pub least: u32,
    /// Most replicas, whatever a policy asks for.
    pub most: u32,
    /// Time between decisions; a request at zero causes one at once.
    pub period: Duration,
    /// The share of replicas that are slow, and how many times longer these take.
    pub slow: (f64, f64),
    /// When every replica takes how many times longer.
    pub slowdowns: Vec<(Range<Duration>, f64)>,
    /// When no gateway reports.
    pub silences: Vec<Range<Duration>>,
    /// The same seed gives the same faults.
    pub seed: u64,
}

/// How long starts take and how they fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Starts {
    /// How long a start takes once there is a GPU, as a policy takes it before it sees the first.
    pub time: Duration,
    /// How long each takes, where that was measured: in turn, and then anew. Where it was not, all take `time`.
    pub measured: Vec<Duration>,
    /// The share of starts that fail at their end, and are begun anew on the same GPU.
    pub failing: f64,
    /// The share of starts that never end.
    pub endless: f64,
}

/// Where replicas run: nodes of one GPU each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machines {
    /// How many GPUs there are; unset sets no limit.
    pub gpus: Option<u32>,
    /// How long a node takes to come, before a replica can start on it.
    pub node_start: Duration,
    /// How long a node stays, and is paid for, after its replica left.
    pub linger: Duration,
    /// GPUs on which all replicas take turns; unset gives each its own.
    pub time_sliced: Option<u32>,
    /// GPUs that cost less and may be taken away.
    pub spot: Option<SpotGpus>,
}

/// GPUs that cost less and may be taken away: the first that are used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpotGpus {
    /// How many there are.
    pub count: u32,
    /// How long one stays on average.
    pub life: Duration,
}

impl Starts {
    /// How long this one takes (0 is the first).
    fn time_of(&self, index: usize) -> Duration {
        let turn = index.checked_rem(self.measured.len());
        turn.map_or(self.time, |turn| self.measured[turn])
    }
}

impl World {
    /// Most replicas where nothing else is said.
    pub const MOST: u32 = 100;

    /// A world without faults, with machines without end.
    #[must_use]
    pub fn new(service: Service, cold_start: Duration) -> Self {
        Self {
            service,
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

    /// Runs the world from time zero until `until`, with requests at these times (in order) and replicas as
    /// the policy says.
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

    fn is_silent(&self, now: Duration) -> bool {
        self.silences.iter().any(|when| when.contains(&now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_starts_come_in_turn_and_then_anew() {
        let second = Duration::from_secs(1);
        let service = Service::Each { time: second, most: 1 };
        let mut starts = World::new(service, 9 * second).starts;
        assert_eq!(starts.time_of(5), 9 * second);
        starts.measured = vec![2 * second, 4 * second];
        let times: Vec<_> = (0..3).map(|index| starts.time_of(index)).collect();
        assert_eq!(times, [2 * second, 4 * second, 2 * second]);
    }
}
