//! The world as requests see it: replaced as a whole when something changes.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;
use weir_cluster::{Phase, Replica, Revision, RevisionName, Route, ServiceName, Snapshot};

use crate::desk::{Room, SeatState, Seating};
use crate::line::{Level, Line, Standing};
use crate::options::Options;
use crate::route::Table;
use crate::shares::Crowd;
use crate::split::luck;
use crate::upstream::Upstream;

/// All that a request needs to find its way.
pub(crate) struct View {
    pub(crate) table: Table,
    pub(crate) lines: HashMap<RevisionName, Arc<Line>>,
    /// The gateways, in their common order.
    pub(crate) peers: Vec<Arc<Upstream>>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// Told when a request meets a revision at zero.
    pulse: Arc<Notify>,
    /// Requests of each service that were split.
    splits: HashMap<ServiceName, Arc<AtomicU32>>,
}

impl View {
    /// Before anything is known.
    pub(crate) fn empty(options: &Options, pulse: Arc<Notify>) -> Self {
        let snapshot = Arc::new(Snapshot::default());
        Self {
            table: Table::new(&snapshot.routes, options.scope),
            lines: HashMap::new(),
            peers: Vec::new(),
            snapshot,
            pulse,
            splits: HashMap::new(),
        }
    }

    /// The next one. What goes on in both goes on undisturbed.
    pub(crate) fn next(&self, snapshot: Arc<Snapshot>, options: &Options) -> Self {
        let table = if Arc::ptr_eq(&snapshot.routes, &self.snapshot.routes) {
            self.table.clone()
        } else {
            Table::new(&snapshot.routes, options.scope)
        };
        let mut next = Self {
            table,
            lines: HashMap::new(),
            peers: snapshot
                .gateways
                .iter()
                .map(|gateway| self.peer(gateway))
                .collect(),
            snapshot: Arc::clone(&snapshot),
            pulse: Arc::clone(&self.pulse),
            splits: HashMap::new(),
        };
        for route in snapshot.routes.as_slice() {
            let count = self.splits.get(&route.service).cloned().unwrap_or_default();
            next.splits.insert(route.service.clone(), count);
            for name in route.revisions() {
                if !next.lines.contains_key(name) {
                    let line = self.line(name, route, &snapshot, options);
                    next.lines.insert(name.clone(), line);
                }
            }
        }
        next.end_others(self);
        next
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
        snapshot: &Snapshot,
        options: &Options,
    ) -> Arc<Line> {
        let room = Room {
            requests: route.max_queue as usize,
            bytes: options.queue_bytes,
        };
        let line = match self.lines.get(name) {
            Some(line) => Arc::clone(line),
            None => Arc::new(Line::new(name.clone(), room, Arc::clone(&self.pulse))),
        };
        let names = snapshot.gateways.iter().map(|gateway| &*gateway.name);
        let crowd = Crowd::new(names, &options.name, name.as_str());
        line.update(standing(&line, snapshot.revision(name), room, crowd));
        line
    }

    /// Revisions that nobody routes to any more: those who have a replica may finish with it, and those
    /// who wait for one that will not come are told so.
    fn end_others(&self, before: &Self) {
        for (name, line) in &before.lines {
            if !self.lines.contains_key(name) {
                let room = Room {
                    requests: 0,
                    bytes: 0,
                };
                let revision = self.snapshot.revision(name);
                line.update(Standing {
                    level: Level::Gone,
                    ..standing(line, revision, room, Crowd::ALONE)
                });
            }
        }
    }
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
