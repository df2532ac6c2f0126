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
    pub(crate) ways: Arc<Ways>,
    /// The gateways, in their common order.
    pub(crate) peers: Vec<Arc<Upstream>>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// As in the options.
    pub(crate) declared: Option<watch::Receiver<Arc<BTreeSet<ServiceName>>>>,
    /// Told when a request meets a revision at zero.
    pulse: Arc<Notify>,
    membership: Membership,
    /// Since when this gateway may use credits.
    starts: Option<Instant>,
}

/// What follows from the routes alone: views share it while routes stay.
pub(crate) struct Ways {
    pub(crate) table: Table,
    pub(crate) lines: HashMap<RevisionName, Arc<Line>>,
    /// Of the revisions that mirror a service.
    pub(crate) copies: HashMap<RevisionName, Arc<Copies>>,
    /// Requests of each service that were split.
    splits: HashMap<ServiceName, Arc<AtomicU32>>,
}

impl View {
    /// Before anything is known.
    pub(crate) fn empty(options: &Options, pulse: Arc<Notify>) -> Self {
        let snapshot = Arc::new(Snapshot::default());
        Self {
            ways: Arc::new(Ways {
                table: Table::new(&snapshot.routes, options.scope),
                lines: HashMap::new(),
                copies: HashMap::new(),
                splits: HashMap::new(),
            }),
            peers: Vec::new(),
            snapshot,
            declared: options.declared.clone(),
            pulse,
            membership: Membership::Unknown,
            starts: None,
        }
    }

    /// When credits may be used next that were left to other gateways.
    pub(crate) fn next_handover(&self) -> Option<Instant> {
        let lines = self.ways.lines.values();
        lines.filter_map(|line| line.next_handover()).min()
    }

    /// The next one. What goes on in both goes on undisturbed.
    pub(crate) fn next(&self, snapshot: Arc<Snapshot>, options: &Options, now: Instant) -> Self {
        let membership = Membership::of(names(&snapshot), &options.name);
        let ways = match Arc::ptr_eq(&snapshot.routes, &self.snapshot.routes) {
            true => Arc::clone(&self.ways),
            false => Arc::new(self.ways.next(&snapshot, options, &self.pulse)),
        };
        let gateways = snapshot.gateways.iter();
        let next = Self {
            ways,
            peers: gateways.map(|gateway| self.peer(gateway)).collect(),
            declared: self.declared.clone(),
            pulse: Arc::clone(&self.pulse),
            starts: match membership.joins(self.membership) {
                true => Some(now + HANDOVER),
                false => self.starts,
            },
            membership,
            snapshot,
        };
        next.update(self, options);
        next.end_others(self, options);
        next
    }

    /// The luck of the service's next request.
    pub(crate) fn luck(&self, service: &ServiceName) -> u32 {
        let count = self.ways.splits.get(service);
        luck(count.map_or(0, |count| count.fetch_add(1, Ordering::Relaxed)))
    }

    /// The lines for which something may be new since this view: of a thousand mostly one.
    pub(crate) fn news<'a>(&'a self, before: &'a Self) -> Vec<(&'a RevisionName, &'a Arc<Line>)> {
        let (now, last) = (&self.snapshot, &before.snapshot);
        if now.gateways != last.gateways {
            return self.ways.lines.iter().collect();
        }
        let mut names: BTreeSet<&RevisionName> = now.changed(last).collect();
        let revisions = now
            .revisions
            .values()
            .filter(|revision| may_be_proven(revision));
        names.extend(revisions.map(|revision| &revision.name));
        if !Arc::ptr_eq(&self.ways, &before.ways) {
            let lines = self.ways.lines.keys();
            names.extend(lines.filter(|name| !before.ways.lines.contains_key(*name)));
        }
        let lines = self.ways.lines.iter();
        let handing_over = lines.filter(|(_, line)| line.next_handover().is_some());
        names.extend(handing_over.map(|(name, _)| name));
        let lines = names.into_iter();
        lines
            .filter_map(|name| self.ways.lines.get_key_value(name))
            .collect()
    }

    /// Tells the lines what is new for them.
    fn update(&self, before: &Self, options: &Options) {
        for (name, line) in self.news(before) {
            let crowd = Crowd::new(names(&self.snapshot), &options.name, name.as_str());
            let revision = self.snapshot.revision(name);
            line.start(self.starts);
            line.update(standing(line, revision, line.room(), crowd));
        }
    }

    fn peer(&self, gateway: &weir_cluster::Gateway) -> Arc<Upstream> {
        let fresh = Upstream::of_gateway(gateway);
        let same = self.peers.iter().find(|peer| ***peer == fresh);
        same.cloned().unwrap_or_else(|| Arc::new(fresh))
    }

    /// Revisions that nobody routes to any more: those who have a replica may finish with it, and those
    /// who wait for one that will not come are told so.
    fn end_others(&self, before: &Self, options: &Options) {
        if Arc::ptr_eq(&self.ways, &before.ways) {
            return;
        }
        for (name, line) in &before.ways.lines {
            if !self.ways.lines.contains_key(name) {
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

impl Ways {
    /// The ways of other routes.
    fn next(&self, snapshot: &Snapshot, options: &Options, pulse: &Arc<Notify>) -> Self {
        let mut next = Self {
            table: Table::new(&snapshot.routes, options.scope),
            lines: HashMap::with_capacity(self.lines.len()),
            copies: HashMap::new(),
            splits: HashMap::with_capacity(self.splits.len()),
        };
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
                    let line = self.line(name, room(route, options), pulse);
                    next.lines.insert(name.clone(), line);
                }
            }
        }
        next
    }

    fn line(&self, name: &RevisionName, room: Room, pulse: &Arc<Notify>) -> Arc<Line> {
        match self.lines.get(name) {
            Some(line) => {
                line.set_room(room);
                Arc::clone(line)
            }
            None => Arc::new(Line::new(name.clone(), room, Arc::clone(pulse))),
        }
    }
}

/// The gateways' names, sorted.
fn names(snapshot: &Snapshot) -> impl ExactSizeIterator<Item = &str> + Clone {
    snapshot.gateways.iter().map(|gateway| &*gateway.name)
}

fn room(route: &Route, options: &Options) -> Room {
    Room {
        requests: route.max_queue as usize,
        bytes: options.queue_bytes,
    }
}

/// Whether a replica may be found to be ready before the platform says so.
fn may_be_proven(revision: &Revision) -> bool {
    revision.in_phase(Phase::Starting).next().is_some()
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
