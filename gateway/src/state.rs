//! The world as requests see it: replaced as a whole when something changes.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use tokio::sync::{Notify, watch};
use weir_cluster::{Phase, Replica, Revision, RevisionName, Route, ServiceName, Snapshot};

use crate::mirror::MirrorCounts;
use crate::options::Options;
use crate::queue::dispatcher::{EndpointSpec, EndpointState, HANDOVER, QueueLimit};
use crate::queue::partition::{GatewaySet, Membership};
use crate::queue::{RevisionQueue, RevisionState, Scale};
use crate::router::RouteMatcher;
use crate::router::split;
use crate::upstream::Upstream;

/// All that a request needs to find its way.
pub(crate) struct State {
    pub(crate) routes: Arc<RouteTable>,
    /// The gateways, in their common order.
    pub(crate) peers: Vec<Arc<Upstream>>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// As in the options.
    pub(crate) declared: Option<watch::Receiver<Arc<BTreeSet<ServiceName>>>>,
    /// Told when a request meets a revision at zero.
    wake: Arc<Notify>,
    membership: Membership,
    /// Since when this gateway may use credits.
    credits_from: Option<Instant>,
}

/// What follows from the routes alone: views share it while routes stay.
pub(crate) struct RouteTable {
    pub(crate) matcher: RouteMatcher,
    pub(crate) queues: HashMap<RevisionName, Arc<RevisionQueue>>,
    /// Of the revisions that mirror a service.
    pub(crate) counts: HashMap<RevisionName, Arc<MirrorCounts>>,
    /// Requests of each service that were split.
    splits: HashMap<ServiceName, Arc<AtomicU32>>,
}

impl State {
    /// Before anything is known.
    pub(crate) fn empty(options: &Options, wake: Arc<Notify>) -> Self {
        let snapshot = Arc::new(Snapshot::default());
        Self {
            routes: Arc::new(RouteTable {
                matcher: RouteMatcher::new(&snapshot.routes, options.scope),
                queues: HashMap::new(),
                counts: HashMap::new(),
                splits: HashMap::new(),
            }),
            peers: Vec::new(),
            snapshot,
            declared: options.declared.clone(),
            wake,
            membership: Membership::Unknown,
            credits_from: None,
        }
    }

    /// When credits may be used next that were left to other gateways.
    pub(crate) fn next_handover(&self) -> Option<Instant> {
        let queues = self.routes.queues.values();
        queues.filter_map(|queue| queue.next_handover()).min()
    }

    /// The next one. What goes on in both goes on undisturbed.
    pub(crate) fn next(&self, snapshot: Arc<Snapshot>, options: &Options, now: Instant) -> Self {
        let membership = Membership::of(names(&snapshot), &options.name);
        let routes = match Arc::ptr_eq(&snapshot.routes, &self.snapshot.routes) {
            true => Arc::clone(&self.routes),
            false => Arc::new(self.routes.next(&snapshot, options, &self.wake)),
        };
        let gateways = snapshot.gateways.iter();
        let next = Self {
            routes,
            peers: gateways.map(|gateway| self.peer(gateway)).collect(),
            declared: self.declared.clone(),
            wake: Arc::clone(&self.wake),
            credits_from: match membership.joins(self.membership) {
                true => Some(now + HANDOVER),
                false => self.credits_from,
            },
            membership,
            snapshot,
        };
        next.update(self, options);
        next.end_others(self, options);
        next
    }

    /// The luck of the service's next request.
    pub(crate) fn next_sample(&self, service: &ServiceName) -> u32 {
        let count = self.routes.splits.get(service);
        split::sample(count.map_or(0, |count| count.fetch_add(1, Ordering::Relaxed)))
    }

    /// The lines for which something may be new since this view: of a thousand mostly one.
    pub(crate) fn changed<'a>(
        &'a self,
        before: &'a Self,
    ) -> Vec<(&'a RevisionName, &'a Arc<RevisionQueue>)> {
        let (now, last) = (&self.snapshot, &before.snapshot);
        if now.gateways != last.gateways {
            return self.routes.queues.iter().collect();
        }
        let mut names: BTreeSet<&RevisionName> = now.changed(last).collect();
        let revisions = now
            .revisions
            .values()
            .filter(|revision| may_be_proven(revision));
        names.extend(revisions.map(|revision| &revision.name));
        if !Arc::ptr_eq(&self.routes, &before.routes) {
            let queues = self.routes.queues.keys();
            names.extend(queues.filter(|name| !before.routes.queues.contains_key(*name)));
        }
        let queues = self.routes.queues.iter();
        let handing_over = queues.filter(|(_, queue)| queue.next_handover().is_some());
        names.extend(handing_over.map(|(name, _)| name));
        let queues = names.into_iter();
        queues
            .filter_map(|name| self.routes.queues.get_key_value(name))
            .collect()
    }

    /// Tells the lines what is new for them.
    fn update(&self, before: &Self, options: &Options) {
        for (name, queue) in self.changed(before) {
            let gateways = GatewaySet::new(names(&self.snapshot), &options.name, name.as_str());
            let revision = self.snapshot.revision(name);
            queue.start(self.credits_from);
            queue.update(revision_state(queue, revision, queue.limit(), gateways));
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
        if Arc::ptr_eq(&self.routes, &before.routes) {
            return;
        }
        for (name, queue) in &before.routes.queues {
            if !self.routes.queues.contains_key(name) {
                let limit = QueueLimit {
                    requests: 0,
                    bytes: 0,
                };
                let revision = self.snapshot.revision(name);
                let gateways = GatewaySet::new(names(&self.snapshot), &options.name, name.as_str());
                queue.update(RevisionState {
                    scale: Scale::Gone,
                    ..revision_state(queue, revision, limit, gateways)
                });
            }
        }
    }
}

impl RouteTable {
    /// The ways of other routes.
    fn next(&self, snapshot: &Snapshot, options: &Options, wake: &Arc<Notify>) -> Self {
        let mut next = Self {
            matcher: RouteMatcher::new(&snapshot.routes, options.scope),
            queues: HashMap::with_capacity(self.queues.len()),
            counts: HashMap::new(),
            splits: HashMap::with_capacity(self.splits.len()),
        };
        for route in snapshot.routes.as_slice() {
            let count = self.splits.get(&route.service).cloned().unwrap_or_default();
            next.splits.insert(route.service.clone(), count);
            if let Some(mirror) = &route.mirror {
                let counts = self.counts.get(&mirror.revision).cloned();
                let name = mirror.revision.clone();
                next.counts.insert(name, counts.unwrap_or_default());
            }
            for name in route.revisions() {
                if !next.queues.contains_key(name) {
                    let queue = self.queue(name, limit(route, options), wake);
                    next.queues.insert(name.clone(), queue);
                }
            }
        }
        next
    }

    fn queue(
        &self,
        name: &RevisionName,
        limit: QueueLimit,
        wake: &Arc<Notify>,
    ) -> Arc<RevisionQueue> {
        match self.queues.get(name) {
            Some(queue) => {
                queue.set_limit(limit);
                Arc::clone(queue)
            }
            None => Arc::new(RevisionQueue::new(name.clone(), limit, Arc::clone(wake))),
        }
    }
}

/// The gateways' names, sorted.
fn names(snapshot: &Snapshot) -> impl ExactSizeIterator<Item = &str> + Clone {
    snapshot.gateways.iter().map(|gateway| &*gateway.name)
}

fn limit(route: &Route, options: &Options) -> QueueLimit {
    QueueLimit {
        requests: route.max_queue as usize,
        bytes: options.queue_bytes,
    }
}

/// Whether a replica may be found to be ready before the platform says so.
fn may_be_proven(revision: &Revision) -> bool {
    revision.in_phase(Phase::Starting).next().is_some()
}

fn revision_state(
    queue: &RevisionQueue,
    revision: Option<&Arc<Revision>>,
    limit: QueueLimit,
    gateways: GatewaySet,
) -> RevisionState {
    let Some(revision) = revision else {
        return RevisionState {
            limit,
            gateways,
            replicas: Vec::new(),
            scale: Scale::Zero,
            failure: None,
        };
    };
    let known = queue.replicas();
    let concurrency = revision.concurrency.map(NonZeroU32::get);
    let alive = revision
        .replicas
        .iter()
        .filter(|replica| is_alive(replica.phase));
    let spec = |replica: &Replica| {
        let fresh = Upstream::of_replica(replica);
        let same = known.iter().find(|(upstream, _, _)| **upstream == fresh);
        let upstream =
            same.map_or_else(|| Arc::new(fresh), |(upstream, _, _)| Arc::clone(upstream));
        EndpointSpec {
            name: replica.name.clone(),
            state: endpoint_state(replica.phase, &upstream),
            replica: upstream,
            concurrency,
        }
    };
    RevisionState {
        limit,
        gateways,
        replicas: alive.map(spec).collect(),
        scale: match revision.is_at_zero() {
            true => Scale::Zero,
            false => Scale::Up,
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

fn endpoint_state(phase: Phase, upstream: &Upstream) -> EndpointState {
    match phase {
        Phase::Ready => EndpointState::Open,
        Phase::Starting if upstream.is_ready() => EndpointState::Open,
        Phase::Pending | Phase::Starting | Phase::Unready | Phase::BackOff | Phase::Terminating => {
            EndpointState::Closed
        }
    }
}
