//! The replicas of a simulation: which are starting, ready, busy or leaving, and which has room for a request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::gpus::Allocated;

/// The replicas there are, by number; later ones have higher numbers.
#[derive(Default)]
pub(super) struct SimulatedReplicas {
    all: BTreeMap<u32, SimulatedReplica>,
    /// Ready replicas with room, by what they work on.
    free: BTreeSet<(u32, u32)>,
    /// Requests that a replica has room for: of batches one.
    most: u32,
    created: u32,
}

pub(super) struct SimulatedReplica {
    pub(super) phase: Phase,
    /// Since when it was asked for.
    pub(super) asked: Duration,
    pub(super) gpu: Option<Allocated>,
    /// How many times longer it takes than others.
    pub(super) factor: f64,
    /// Requests or batches that it works on.
    busy: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for a GPU.
    Pending,
    Starting,
    Ready,
    /// Finishes its requests, then leaves.
    Ending,
}

impl SimulatedReplicas {
    pub(super) fn new(most: u32) -> Self {
        Self { most, ..Self::default() }
    }

    /// Adds one that waits for a GPU.
    pub(super) fn create(&mut self, now: Duration, factor: f64) -> u32 {
        self.created += 1;
        let replica = SimulatedReplica { phase: Phase::Pending, asked: now, gpu: None, factor, busy: 0 };
        self.all.insert(self.created, replica);
        self.created
    }

    /// How many replicas the work of all would keep busy.
    pub(super) fn working(&self) -> f64 {
        let busy: u32 = self.all.values().map(|replica| replica.busy).sum();
        f64::from(busy) / f64::from(self.most)
    }

    /// The one that has waited longest for a GPU.
    pub(super) fn pending(&self) -> Option<u32> {
        let mut all = self.all.iter();
        let pending = all.find(|(_, replica)| replica.phase == Phase::Pending);
        pending.map(|(number, _)| *number)
    }

    /// One has got a GPU.
    pub(super) fn place(&mut self, number: u32, gpu: Allocated) {
        if let Some(replica) = self.all.get_mut(&number) {
            replica.phase = Phase::Starting;
            replica.gpu = Some(gpu);
        }
    }

    /// One has started, unless it was ended before; since when it was asked for.
    pub(super) fn ready(&mut self, number: u32) -> Option<Duration> {
        let replica = self.all.get_mut(&number)?;
        if replica.phase != Phase::Starting {
            return None;
        }
        replica.phase = Phase::Ready;
        self.free.insert((0, number));
        Some(replica.asked)
    }

    /// Ends one: of those that have no GPU or start the latest, else the one with the least to do. It is
    /// returned if it is gone at once.
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

    /// The replica with the least to do takes what makes it one busier.
    pub(super) fn take(&mut self) -> Option<(u32, f64)> {
        let (_, number) = self.free.pop_first()?;
        let replica = self.all.get_mut(&number)?;
        replica.busy += 1;
        if replica.busy < self.most {
            self.free.insert((replica.busy, number));
        }
        Some((number, replica.factor))
    }

    /// A replica has finished one of what it works on. It is returned if it is gone with that.
    pub(super) fn finish(&mut self, number: u32) -> Option<SimulatedReplica> {
        let replica = self.all.get_mut(&number)?;
        if replica.phase == Phase::Ready {
            self.free.remove(&(replica.busy, number));
            self.free.insert((replica.busy - 1, number));
        }
        replica.busy -= 1;
        self.left(number)
    }

    /// A replica is gone, whatever it worked on.
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

    /// How many were ever asked for.
    pub(super) fn created(&self) -> u32 {
        self.created
    }

    /// How many are in this phase.
    pub(super) fn count(&self, phase: Phase) -> u32 {
        self.iter().filter(|r| r.phase == phase).count() as u32
    }

    /// How long each that is not ready yet was asked for.
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
