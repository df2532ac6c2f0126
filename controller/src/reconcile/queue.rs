//! The services by name: each waits, or one task has it. A slow or failing one holds up no other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_cluster::ServiceName;

use super::inputs::Inputs;
use super::metrics::{LoopState, Readiness};
use super::observed::Observed;
use super::retry::Retry;
use super::state::ServiceState;
use super::work::Outcome;
use crate::declaration::DeclaredService;
use crate::turns::{self, Follow, Part};

/// The services that are known, by name.
#[derive(Default)]
pub(super) struct Queue(BTreeMap<ServiceName, Entry>);

/// One service of the queue.
#[derive(Default)]
struct Entry {
    place: Place,
    retry: Retry,
    /// The declaration that the last attempt failed with.
    failed_with: Option<DeclaredService>,
    /// End of the last attempt, in seconds since 1970.
    ended: u64,
    /// Its readiness, as published last.
    readiness: Readiness,
    /// Part in the rolling of a changed runtime.
    part: Part,
    /// Time of its last turn to follow one, in seconds since 1970.
    last_turn: u64,
    /// True from its turn until it is begun.
    has_turn: bool,
}

/// Place of a service's state.
#[derive(Default)]
enum Place {
    /// It has to be loaded first.
    #[default]
    Stored,
    Here(Box<ServiceState>),
    /// A task has it.
    UnderWay,
}

impl Queue {
    /// Adds services that are known by what runs.
    pub(super) fn adopt(&mut self, services: BTreeSet<ServiceName>) {
        let entries = services.into_iter().map(|name| (name, Entry::default()));
        self.0.extend(entries);
    }

    /// The services to remove now.
    pub(super) fn undeclared(&self, observed: &Observed) -> Vec<ServiceName> {
        let is_due = |(name, entry): &(&ServiceName, &Entry)| {
            let is_declared = observed.declaration.services.contains_key(*name);
            let is_free = !matches!(entry.place, Place::UnderWay);
            !is_declared && is_free && entry.retry.is_due(observed.now)
        };
        let names = self.0.iter().filter(is_due).map(|(name, _)| name.clone());
        names.collect()
    }

    /// Tells if a declared service has to be reconciled now: its inputs are others than the last time, or time may change
    /// its plan. One that failed waits, unless it was edited since.
    pub(super) fn is_due(
        &self,
        name: &ServiceName,
        declared: &DeclaredService,
        now: u64,
        are_same: impl FnOnce(&Inputs, &ServiceState) -> bool,
    ) -> bool {
        let Some(entry) = self.0.get(name) else {
            return true;
        };
        match &entry.place {
            Place::UnderWay => false,
            _ if entry.has_turn => true,
            _ if entry.retry.is_failing() => entry.retry.is_due(now) || entry.is_edited(declared),
            Place::Stored => true,
            Place::Here(state) => {
                let is_timed = !state.is_settled && now > entry.ended || state.asks_again(now);
                let seen = state.seen.as_ref();
                is_timed || seen.is_none_or(|seen| !are_same(seen, state))
            }
        }
    }

    /// Gives turns to follow a changed runtime, as many as are free. Before every service is known, nobody knows how many
    /// are: those that cannot be loaded do not count.
    pub(super) fn give_turns(&mut self, observed: &Observed) {
        let now = observed.now;
        let is_known = |name| self.0.get(name).is_some_and(|entry| entry.ended > 0);
        if !self.0.values().any(|entry| entry.waits_for_turn(now))
            || !observed.declaration.services.keys().all(is_known)
        {
            return;
        }
        let places = self.0.iter().filter(|(_, entry)| entry.part.is_rolling(now) || entry.waits_for_turn(now));
        let places = places.map(|(service, entry)| turns::Place { service, part: entry.part, last: entry.last_turn });
        for service in turns::next(places, now) {
            if let Some(entry) = self.0.get_mut(&service) {
                (entry.part, entry.last_turn, entry.has_turn) = (Part::begun(now), now, true);
            }
        }
    }

    /// Tells whether a service may follow a changed runtime.
    pub(super) fn turn(&self, name: &ServiceName, now: u64) -> Follow {
        match self.0.get(name) {
            Some(entry) if entry.part.is_rolling(now) => Follow::Now,
            Some(_) | None => Follow::Later,
        }
    }

    /// Marks a service as under way, and returns its state; `None` where it has to be loaded.
    pub(super) fn begin(&mut self, name: &ServiceName) -> Option<Box<ServiceState>> {
        let entry = self.0.entry(name.clone()).or_default();
        entry.has_turn = false;
        match std::mem::replace(&mut entry.place, Place::UnderWay) {
            Place::Here(state) => Some(state),
            Place::Stored | Place::UnderWay => None,
        }
    }

    /// Takes a service back. One that was removed is forgotten.
    pub(super) fn end(&mut self, outcome: Outcome, now: u64) {
        let is_removed = outcome.declared.is_none() && outcome.result.is_ok();
        if is_removed {
            self.0.remove(&outcome.service);
            return;
        }
        let entry = self.0.entry(outcome.service).or_default();
        entry.ended = now;
        entry.place = match outcome.state {
            Some(state) => {
                entry.readiness = state.status.readiness();
                entry.part = state.part;
                Place::Here(state)
            }
            None => Place::Stored,
        };
        (entry.retry, entry.failed_with) = match outcome.result {
            Ok(()) => (Retry::default(), None),
            Err(_) => (entry.retry.failed(now), outcome.declared),
        };
    }

    /// The delay after one more failure of a service.
    pub(super) fn delay_after(&self, name: &ServiceName) -> Duration {
        let entry = self.0.get(name);
        entry.map_or(Retry::default(), |entry| entry.retry).delay()
    }

    /// The result of the last attempts.
    pub(super) fn loop_state(&self) -> LoopState {
        if self.0.values().any(|entry| entry.retry.is_failing()) { LoopState::Failing } else { LoopState::Healthy }
    }

    /// The readiness of each service, as published last.
    pub(super) fn readiness(&self) -> impl Iterator<Item = Readiness> {
        self.0.values().map(|entry| entry.readiness)
    }
}

impl Entry {
    /// Tells whether a service waits for its turn, and would use it.
    fn waits_for_turn(&self, now: u64) -> bool {
        let is_free = matches!(self.place, Place::Here(_));
        self.part == Part::Waiting && is_free && self.retry.is_due(now)
    }

    fn is_edited(&self, declared: &DeclaredService) -> bool {
        let failed_with = self.failed_with.as_ref();
        failed_with.is_some_and(|failed_with| !failed_with.is(declared))
    }
}
