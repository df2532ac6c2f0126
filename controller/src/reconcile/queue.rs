//! Queue of the services: each waits, or a task works on it. A slow or failing service does not delay the others.

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
use crate::turns::{self, Follow, RollRole};

/// Known services by name.
#[derive(Default)]
pub(super) struct Queue(BTreeMap<ServiceName, Entry>);

/// State of one service in the queue.
#[derive(Default)]
struct Entry {
    location: StateLocation,
    retry: Retry,
    /// Declaration with which the last attempt failed; None if the attempt succeeded.
    failed_with: Option<DeclaredService>,
    /// End of the last attempt, in seconds since 1970.
    ended: u64,
    /// Readiness that was last published.
    readiness: Readiness,
    /// Role of the service in the rolling update of a changed runtime.
    role: RollRole,
    /// Time of the last turn to follow a changed runtime, in seconds since 1970.
    last_turn: u64,
    /// True from the service's turn until its task begins.
    has_turn: bool,
}

/// Location of a service's state.
#[derive(Default)]
enum StateLocation {
    /// The state must be loaded first.
    #[default]
    Stored,
    Here(Box<ServiceState>),
    /// A task has the state.
    UnderWay,
}

impl Queue {
    /// Adds services that were found running or routed.
    pub(super) fn adopt(&mut self, services: BTreeSet<ServiceName>) {
        let entries = services.into_iter().map(|name| (name, Entry::default()));
        self.0.extend(entries);
    }

    /// Returns the undeclared services that are due for removal.
    pub(super) fn undeclared(&self, observed: &Observed) -> Vec<ServiceName> {
        let is_due = |(name, entry): &(&ServiceName, &Entry)| {
            let is_declared = observed.declaration.services.contains_key(*name);
            let is_free = !matches!(entry.location, StateLocation::UnderWay);
            !is_declared && is_free && entry.retry.is_due(observed.now)
        };
        let names = self.0.iter().filter(is_due).map(|(name, _)| name.clone());
        names.collect()
    }

    /// Returns true if a declared service has to be reconciled now: its inputs have changed, or time may change its
    /// plan. A failed service waits for its retry, unless it was edited since.
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
        match &entry.location {
            StateLocation::UnderWay => false,
            _ if entry.has_turn => true,
            _ if entry.retry.is_failing() => entry.retry.is_due(now) || entry.is_edited(declared),
            StateLocation::Stored => true,
            StateLocation::Here(state) => {
                let is_timed = !state.is_settled && now > entry.ended || state.asks_again(now);
                let seen = state.seen.as_ref();
                is_timed || seen.is_none_or(|seen| !are_same(seen, state))
            }
        }
    }

    /// Gives free turns to services that wait to follow a changed runtime. It gives none before every service was
    /// loaded once, because only then is the number of turns in use known. Services that cannot be loaded do not count.
    pub(super) fn give_turns(&mut self, observed: &Observed) {
        let now = observed.now;
        let is_known = |name| self.0.get(name).is_some_and(|entry| entry.ended > 0);
        if !self.0.values().any(|entry| entry.waits_for_turn(now))
            || !observed.declaration.services.keys().all(is_known)
        {
            return;
        }
        let places = self
            .0
            .iter()
            .filter(|(_, entry)| entry.role.is_rolling(now) || entry.waits_for_turn(now))
            .map(|(service, entry)| turns::TurnEntry { service, role: entry.role, last: entry.last_turn });
        for service in turns::next(places, now) {
            if let Some(entry) = self.0.get_mut(&service) {
                (entry.role, entry.last_turn, entry.has_turn) = (RollRole::begun(now), now, true);
            }
        }
    }

    /// Returns whether a service may follow a changed runtime now.
    pub(super) fn turn(&self, name: &ServiceName, now: u64) -> Follow {
        match self.0.get(name) {
            Some(entry) if entry.role.is_rolling(now) => Follow::Now,
            Some(_) | None => Follow::Later,
        }
    }

    /// Marks a service as being worked on, and returns its state; None if the state must be loaded.
    pub(super) fn begin(&mut self, name: &ServiceName) -> Option<Box<ServiceState>> {
        let entry = self.0.entry(name.clone()).or_default();
        entry.has_turn = false;
        match std::mem::replace(&mut entry.location, StateLocation::UnderWay) {
            StateLocation::Here(state) => Some(state),
            StateLocation::Stored | StateLocation::UnderWay => None,
        }
    }

    /// Takes a service back after its task. A removed service is forgotten.
    pub(super) fn end(&mut self, outcome: Outcome, now: u64) {
        let is_removed = outcome.declared.is_none() && outcome.result.is_ok();
        if is_removed {
            self.0.remove(&outcome.service);
            return;
        }
        let entry = self.0.entry(outcome.service).or_default();
        entry.ended = now;
        entry.location = match outcome.state {
            Some(state) => {
                entry.readiness = state.status.readiness();
                entry.role = state.role;
                StateLocation::Here(state)
            }
            None => StateLocation::Stored,
        };
        (entry.retry, entry.failed_with) = match outcome.result {
            Ok(()) => (Retry::default(), None),
            Err(_) => (entry.retry.failed(now), outcome.declared),
        };
    }

    /// Returns the delay after one more failure of a service.
    pub(super) fn delay_after(&self, name: &ServiceName) -> Duration {
        let entry = self.0.get(name);
        entry.map_or(Retry::default(), |entry| entry.retry).delay()
    }

    /// Returns the result of the last attempts.
    pub(super) fn loop_state(&self) -> LoopState {
        if self.0.values().any(|entry| entry.retry.is_failing()) { LoopState::Failing } else { LoopState::Healthy }
    }

    /// Returns the readiness of each service, as last published.
    pub(super) fn readiness(&self) -> impl Iterator<Item = Readiness> {
        self.0.values().map(|entry| entry.readiness)
    }
}

impl Entry {
    /// Returns true if a service waits for its turn and is free to use it.
    fn waits_for_turn(&self, now: u64) -> bool {
        let is_free = matches!(self.location, StateLocation::Here(_));
        self.role == RollRole::Waiting && is_free && self.retry.is_due(now)
    }

    fn is_edited(&self, declared: &DeclaredService) -> bool {
        let failed_with = self.failed_with.as_ref();
        failed_with.is_some_and(|failed_with| !failed_with.is(declared))
    }
}
