//! Simulated replicas.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Service;

/// The replicas there are, by number; later ones have higher numbers.
#[derive(Default)]
pub(super) struct SimulatedReplicas {
    all: BTreeMap<u32, SimulatedReplica>,
    started: u32,
}

struct SimulatedReplica {
    phase: Phase,
    /// Requests that it works on.
    busy: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Starts since this time.
    Starting(Duration),
    Ready,
    /// Finishes its requests, then leaves.
    Ending,
}

impl SimulatedReplicas {
    /// Adds one that starts now.
    pub(super) fn start(&mut self, now: Duration) -> u32 {
        self.started += 1;
        let replica = SimulatedReplica {
            phase: Phase::Starting(now),
            busy: 0,
        };
        self.all.insert(self.started, replica);
        self.started
    }

    /// How many were ever started.
    pub(super) fn started(&self) -> u32 {
        self.started
    }

    /// How many there are, those that end included.
    pub(super) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// One has started, unless it was ended before.
    pub(super) fn ready(&mut self, number: u32) {
        if let Some(replica) = self.all.get_mut(&number)
            && replica.phase != Phase::Ending
        {
            replica.phase = Phase::Ready;
        }
    }

    /// Ends one: of those that start the latest, else the one with the least to do.
    pub(super) fn end_one(&mut self) {
        let stays = self.all.iter().filter(|(_, r)| r.phase != Phase::Ending);
        let order = |(number, replica): &(&u32, &SimulatedReplica)| match replica.phase {
            Phase::Starting(_) => (0, u32::MAX - **number),
            Phase::Ready | Phase::Ending => (1, replica.busy),
        };
        let number = stays.min_by_key(order).map(|(number, _)| *number);
        if let Some(replica) = number.and_then(|number| self.all.get_mut(&number)) {
            replica.phase = Phase::Ending;
        }
        self.leave();
    }

    /// Gives up to `waiting` requests to the replica with the least to do; the number of the replica, and
    /// how many it took.
    pub(super) fn take(
        &mut self,
        service: Service,
        credits: u32,
        waiting: u32,
    ) -> Option<(u32, u32)> {
        let (most, count) = match service {
            Service::Each(_) => (credits, 1),
            Service::Batched { .. } => (1, waiting.min(credits)),
        };
        let free = self.all.iter_mut();
        let free = free.filter(|(_, r)| r.phase == Phase::Ready && r.busy < most);
        let (number, replica) = free.min_by_key(|(_, replica)| replica.busy)?;
        replica.busy += count;
        Some((*number, count))
    }

    /// A replica has finished so many requests.
    pub(super) fn finish(&mut self, number: u32, count: u32) {
        if let Some(replica) = self.all.get_mut(&number) {
            replica.busy -= count;
        }
        self.leave();
    }

    /// Requests at replicas, all together.
    pub(super) fn in_flight(&self) -> u32 {
        self.all.values().map(|replica| replica.busy).sum()
    }

    /// How many take requests.
    pub(super) fn ready_count(&self) -> u32 {
        let ready = self.all.values().filter(|r| r.phase == Phase::Ready);
        ready.count() as u32
    }

    /// How long each that starts has been starting.
    pub(super) fn starting(&self, now: Duration) -> Vec<Duration> {
        let starting = self.all.values().filter_map(|replica| match replica.phase {
            Phase::Starting(since) => Some(now.saturating_sub(since)),
            Phase::Ready | Phase::Ending => None,
        });
        starting.collect()
    }

    fn leave(&mut self) {
        self.all
            .retain(|_, r| r.phase != Phase::Ending || r.busy > 0);
    }
}
