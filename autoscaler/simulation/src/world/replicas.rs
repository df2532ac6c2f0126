//! Replicas of a simulation: their phases, and which of them has room for a request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::gpus::Allocated;

/// All replicas by number; later replicas have higher numbers.
#[derive(Default)]
pub(super) struct SimulatedReplicas {
    all: BTreeMap<u32, SimulatedReplica>,
    /// Ready replicas with room, ordered by their load.
    free: BTreeSet<(u32, u32)>,
    /// Requests that a replica takes at once; one if it is a batch.
    most: u32,
    created: u32,
}

pub(super) struct SimulatedReplica {
    pub(super) phase: Phase,
    /// Time at which the replica was requested.
    pub(super) asked: Duration,
    pub(super) gpu: Option<Allocated>,
    /// Factor of the replica's service times.
    pub(super) factor: f64,
    /// Requests or batches that the replica works on.
    busy: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The replica waits for a GPU.
    Pending,
    Starting,
    Ready,
    /// The replica finishes its requests, then ends.
    Ending,
}

impl SimulatedReplicas {
    pub(super) fn new(most: u32) -> Self {
        Self { most, ..Self::default() }
    }

    /// Adds a replica that waits for a GPU, and returns its number.
    pub(super) fn create(&mut self, now: Duration, factor: f64) -> u32 {
        self.created += 1;
        let replica = SimulatedReplica { phase: Phase::Pending, asked: now, gpu: None, factor, busy: 0 };
        self.all.insert(self.created, replica);
        self.created
    }

    /// Returns how many replicas the present work would keep fully busy.
    pub(super) fn working(&self) -> f64 {
        let busy: u32 = self.all.values().map(|replica| replica.busy).sum();
        f64::from(busy) / f64::from(self.most)
    }

    /// Returns the replica that has waited longest for a GPU.
    pub(super) fn pending(&self) -> Option<u32> {
        let mut all = self.all.iter();
        let pending = all.find(|(_, replica)| replica.phase == Phase::Pending);
        pending.map(|(number, _)| *number)
    }

    /// Assigns a GPU to a replica, which then starts.
    pub(super) fn place(&mut self, number: u32, gpu: Allocated) {
        if let Some(replica) = self.all.get_mut(&number) {
            replica.phase = Phase::Starting;
            replica.gpu = Some(gpu);
        }
    }

    /// Marks a started replica as ready, and returns the time at which it was requested; `None` if it is ending.
    pub(super) fn ready(&mut self, number: u32) -> Option<Duration> {
        let replica = self.all.get_mut(&number)?;
        if replica.phase != Phase::Starting {
            return None;
        }
        replica.phase = Phase::Ready;
        self.free.insert((0, number));
        Some(replica.asked)
    }

    /// Ends one replica: the latest one without a GPU, else the latest one that is starting, else the least loaded one.
    /// Returns it if it is gone at once.
    pub(super) fn end_one(&mut self) -> Option<SimulatedReplica> {
        let stays = self.all.iter().filter(|(_, r)| r.phase != Phase::Ending);
        let order = |(number, replica): &(&u32, &SimulatedReplica)| match replica.phase {
            Phase::Pending => (0, u32::MAX - **number),
            Phase::Starting => (1, u32::MAX - **number),
            Phase::Ready | Phase::Ending => (2, replica.busy),
        };
        let number = stays.min_by_key(order).map(|(number, _)| *number)?;
        let replica = self.all.get_mut(&number)?;
        replica.phase = Phase::Ending;
        self.free.remove(&(replica.busy, number));
        self.left(number)
    }

    /// Assigns work to the least loaded replica; returns its number and its factor.
    pub(super) fn take(&mut self) -> Option<(u32, f64)> {
        let (_, number) = self.free.pop_first()?;
        let replica = self.all.get_mut(&number)?;
        replica.busy += 1;
        if replica.busy < self.most {
            self.free.insert((replica.busy, number));
        }
        Some((number, replica.factor))
    }

    /// Finishes one request or batch of a replica. Returns the replica if it is gone with that.
    pub(super) fn finish(&mut self, number: u32) -> Option<SimulatedReplica> {
        let replica = self.all.get_mut(&number)?;
        if replica.phase == Phase::Ready {
            self.free.remove(&(replica.busy, number));
            self.free.insert((replica.busy - 1, number));
        }
        replica.busy -= 1;
        self.left(number)
    }

    /// Removes a replica together with its work.
    pub(super) fn remove(&mut self, number: u32) -> Option<SimulatedReplica> {
        let replica = self.all.remove(&number)?;
        self.free.remove(&(replica.busy, number));
        Some(replica)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SimulatedReplica> {
        self.all.values()
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.all.contains_key(&number)
    }

    /// Returns the number of replicas that were ever requested.
    pub(super) fn created(&self) -> u32 {
        self.created
    }

    /// Returns the number of replicas in this phase.
    pub(super) fn count(&self, phase: Phase) -> u32 {
        self.iter().filter(|r| r.phase == phase).count() as u32
    }

    /// Returns the time since the request for each replica that is not ready yet.
    pub(super) fn starting(&self, now: Duration) -> Vec<Duration> {
        let starting = self.iter().filter_map(|replica| match replica.phase {
            Phase::Pending | Phase::Starting => Some(now.saturating_sub(replica.asked)),
            Phase::Ready | Phase::Ending => None,
        });
        starting.collect()
    }

    fn left(&mut self, number: u32) -> Option<SimulatedReplica> {
        let replica = self.all.get(&number)?;
        let is_gone = replica.phase == Phase::Ending && replica.busy == 0;
        is_gone.then(|| self.all.remove(&number)).flatten()
    }
}
