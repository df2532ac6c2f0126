//! The world as requests see it: replaced as a whole when something changes.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use tokio::sync::{Notify, watch};
use weir_cluster::{Phase, Replica, Revision, RevisionName, Route, ServiceName, Snapshot};

use crate::desk::{HANDOVER, Room, SeatState, Seating};
use crate::line::{Level, Line, Standing};
use crate::mirror::Copies;
use crate::options::Options;
use crate::route::Table;
use crate::shares::{Crowd, Membership};
use crate::split::luck;
use crate::upstream::Upstream;

/// All that a request needs to find its way.
pub(crate) struct View {
    pub(crate) table: Table,
    pub(crate) lines: HashMap<RevisionName, Arc<Line>>,
    /// Of the revisions that mirror a service.
    pub(crate) copies: HashMap<RevisionName, Arc<Copies>>,
    /// The gateways, in their common order.
    pub(crate) peers: Vec<Arc<Upstream>>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// As in the options.
    pub(crate) declared: Option<watch::Receiver<Arc<BTreeSet<ServiceName>>>>,
    /// Told when a request meets a revision at zero.
    pulse: Arc<Notify>,
    /// Requests of each service that were split.
    splits: HashMap<ServiceName, Arc<AtomicU32>>,
    membership: Membership,
    /// Since when this gateway may use credits.
    starts: Option<Instant>,
}

impl View {
    /// Before anything is known.
    pub(crate) fn empty(options: &Options, pulse: Arc<Notify>) -> Self {
        let snapshot = Arc::new(Snapshot::default());
        Self {
            table: Table::new(&snapshot.routes, options.scope),
            lines: HashMap::new(),
            copies: HashMap::new(),
            peers: Vec::new(),
            snapshot,
            declared: options.declared.clone(),
            pulse,
            splits: HashMap::new(),
            membership: Membership::Unknown,
            starts: None,
        }
    }

    /// When credits may be used next that were left to other gateways.
    pub(crate) fn next_handover(&self) -> Option<Instant> {
        let lines = self.lines.values();
        lines.filter_map(|line| line.next_handover()).min()
    }

    /// The next one. What goes on in both goes on undisturbed.
    pub(crate) fn next(&self, snapshot: Arc<Snapshot>, options: &Options, now: Instant) -> Self {
        let mut next = self.begun(snapshot, options, now);
        let snapshot = Arc::clone(&next.snapshot);
        for route in snapshot.routes.as_slice() {
            let count = self.splits.get(&route.service).cloned().unwrap_or_default();
            next.splits.insert(route.service.clone(), count);
            if let Some(mirror) = &route.mirror {
                let copies = self.copies.get(&mirror.revision).cloned();
                let name = mirror.revision.clone();
                next.copies.insert(name, copies.unwrap_or_default());
            }
            for name in route.revisions() {
                if !next.lines.contains_key(name) {
                    let line = self.line(name, route, &next, options);
                    next.lines.insert(name.clone(), line);
                }
            }
        }
        next.end_others(self, options);
        next
    }

    /// The next one, before any revision is in it.
    fn begun(&self, snapshot: Arc<Snapshot>, options: &Options, now: Instant) -> Self {
        let membership = Membership::of(names(&snapshot), &options.name);
        let gateways = snapshot.gateways.iter();
        Self {
            table: match Arc::ptr_eq(&snapshot.routes, &self.snapshot.routes) {
                true => self.table.clone(),
                false => Table::new(&snapshot.routes, options.scope),
            },
            lines: HashMap::new(),
            copies: HashMap::new(),
            peers: gateways.map(|gateway| self.peer(gateway)).collect(),
            declared: self.declared.clone(),
            pulse: Arc::clone(&self.pulse),
            splits: HashMap::new(),
            starts: match membership.joins(self.membership) {
                true => Some(now + HANDOVER),
                false => self.starts,
            },
            membership,
            snapshot,
        }
    }

    /// The luck of the service's next request.
    pub(crate) fn luck(&self, service: &ServiceName) -> u32 {
        let count = self.splits.get(service);
        luck(count.map_or(0, |count| count.fetch_add(1, Ordering::Relaxed)))
    }

    fn peer(&self, gateway: &weir_cluster::Gateway) -> Arc<Upstream> {
        let fresh = Upstream::of_gateway(gateway);
        let same = self.peers.iter().find(|peer| ***peer == fresh);
        same.cloned().unwrap_or_else(|| Arc::new(fresh))
    }

    fn line(
        &self,
        name: &RevisionName,
        route: &Route,
        next: &Self,
        options: &Options,
    ) -> Arc<Line> {
        let snapshot = &next.snapshot;
        let room = Room {
            requests: route.max_queue as usize,
            bytes: options.queue_bytes,
        };
        let line = match self.lines.get(name) {
            Some(line) => Arc::clone(line),
            None => Arc::new(Line::new(name.clone(), room, Arc::clone(&self.pulse))),
        };
        let crowd = Crowd::new(names(snapshot), &options.name, name.as_str());
        line.start(next.starts);
        line.update(standing(&line, snapshot.revision(name), room, crowd));
        line
    }

    /// Revisions that nobody routes to any more: those who have a replica may finish with it, and those
    /// who wait for one that will not come are told so.
    fn end_others(&self, before: &Self, options: &Options) {
        for (name, line) in &before.lines {
            if !self.lines.contains_key(name) {
                let room = Room {
                    requests: 0,
                    bytes: 0,
                };
                let revision = self.snapshot.revision(name);
                let crowd = Crowd::new(names(&self.snapshot), &options.name, name.as_str());
                line.update(Standing {
                    level: Level::Gone,
                    ..standing(line, revision, room, crowd)
                });
            }
        }
    }
}

/// The gateways' names, sorted.
fn names(snapshot: &Snapshot) -> impl ExactSizeIterator<Item = &str> + Clone {
    snapshot.gateways.iter().map(|gateway| &*gateway.name)
}

fn standing(line: &Line, revision: Option<&Arc<Revision>>, room: Room, crowd: Crowd) -> Standing {
    let Some(revision) = revision else {
        return Standing {
            room,
            crowd,
            replicas: Vec::new(),
            level: Level::Zero,
            failure: None,
        };
    };
    let known = line.replicas();
    let concurrency = revision.concurrency.map(NonZeroU32::get);
    let alive = revision
        .replicas
        .iter()
        .filter(|replica| is_alive(replica.phase));
    let seating = |replica: &Replica| {
        let fresh = Upstream::of_replica(replica);
        let same = known.iter().find(|(upstream, _, _)| **upstream == fresh);
        let upstream =
            same.map_or_else(|| Arc::new(fresh), |(upstream, _, _)| Arc::clone(upstream));
        Seating {
            name: replica.name.clone(),
            state: seat_state(replica.phase, &upstream),
            replica: upstream,
            concurrency,
        }
    };
    Standing {
        room,
        crowd,
        replicas: alive.map(seating).collect(),
        level: match revision.is_at_zero() {
            true => Level::Zero,
            false => Level::Up,
        },
        failure: revision.failure.clone(),
    }
}

/// Whether it may still answer what it has.
fn is_alive(phase: Phase) -> bool {
    match phase {
        Phase::Starting | Phase::Ready | Phase::Unready | Phase::Terminating => true,
        Phase::Pending | Phase::BackOff => false,
    }
}

fn seat_state(phase: Phase, upstream: &Upstream) -> SeatState {
    match phase {
        Phase::Ready => SeatState::Open,
        Phase::Starting if upstream.is_proven() => SeatState::Open,
        Phase::Pending | Phase::Starting | Phase::Unready | Phase::BackOff | Phase::Terminating => {
            SeatState::Closed
        }
    }
}
