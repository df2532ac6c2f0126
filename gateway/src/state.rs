//! Routes, queues and peers as requests see them, derived from each state of the cluster.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;
use weir_cluster::{Outlook, Phase, ReadyCall, Replica, Revision, RevisionName, Snapshot};

use crate::options::Options;
use crate::queue::{
    EndpointSpec, EndpointState, GatewaySet, HANDOVER, Membership, QueueLimit, RevisionQueue, RevisionState, Scale,
    WakeUps, owner,
};
use crate::router::RouteTable;
use crate::upstream::Upstream;
use crate::upstream::probe::probe_until_ready;

/// Routes, queues and peers as requests see them; replaced as a whole.
pub(crate) struct State {
    pub(crate) routes: Arc<RouteTable>,
    /// Queues of revisions without a route, whose replicas still have requests.
    pub(crate) leaving: Vec<Arc<RevisionQueue>>,
    /// All gateways, sorted by name.
    pub(crate) peers: Vec<Arc<Upstream>>,
    pub(crate) snapshot: Arc<Snapshot>,
    wakes: Arc<WakeUps>,
    membership: Membership,
    /// Time from which this gateway may use credits; `None` if it never joined or replaced other gateways.
    credits_from: Option<Instant>,
}

impl State {
    /// Creates the state of a gateway that has not received a state of the cluster yet.
    pub(crate) fn empty(options: &Options, wakes: Arc<WakeUps>) -> Self {
        let snapshot = Arc::new(Snapshot::default());
        Self {
            routes: Arc::new(RouteTable::empty(Arc::clone(&snapshot.routes), options)),
            leaving: Vec::new(),
            peers: Vec::new(),
            snapshot,
            wakes,
            membership: Membership::Unknown,
            credits_from: None,
        }
    }

    /// Returns the gateway that owns the queue of a revision, if it is another one than `me`.
    pub(crate) fn other_owner(&self, revision: &RevisionName, me: &str) -> Option<&Arc<Upstream>> {
        let owner = owner(self.peers.iter(), |peer| &peer.name, revision.as_str());
        owner.filter(|peer| *peer.name != *me)
    }

    /// Returns the next time at which this gateway gains credits from another gateway.
    pub(crate) fn next_handover(&self) -> Option<Instant> {
        let queues = self.routes.queues.values();
        queues.filter_map(|queue| queue.next_handover()).min()
    }

    /// Returns the state that follows from `snapshot`. Queues and connections carry over.
    pub(crate) fn next(&self, snapshot: Arc<Snapshot>, options: &Options, now: Instant) -> Self {
        let membership = Membership::of(names(&snapshot), &options.name);
        let routes = if Arc::ptr_eq(&snapshot.routes, &self.snapshot.routes) {
            Arc::clone(&self.routes)
        } else {
            Arc::new(self.routes.next(&snapshot.routes, options, &self.wakes))
        };
        let gateways = snapshot.gateways.iter();
        let mut next = Self {
            routes,
            leaving: Vec::new(),
            peers: gateways.map(|gateway| self.peer(gateway, options)).collect(),
            wakes: Arc::clone(&self.wakes),
            credits_from: if membership.joins(self.membership) { Some(now + HANDOVER) } else { self.credits_from },
            membership,
            snapshot,
        };
        if let Some(access) = &options.access {
            access.divide(next.membership.gateways(next.peers.len() as u32));
        }
        next.update(self, options);
        let unrouted = next.close_unrouted(self, options);
        let leaving = self.leaving.iter().chain(unrouted).filter(|queue| queue.has_requests_at_replicas());
        next.leaving = leaving.cloned().collect();
        next
    }

    /// Returns the queues that may have changed since `before`. Usually that is one queue out of a thousand.
    pub(crate) fn changed<'a>(&'a self, before: &'a Self) -> Vec<(&'a RevisionName, &'a Arc<RevisionQueue>)> {
        let (now, last) = (&self.snapshot, &before.snapshot);
        if now.gateways != last.gateways {
            return self.routes.queues.iter().collect();
        }
        let mut names: BTreeSet<&RevisionName> = now.changed(last).collect();
        let revisions = now.revisions.values().filter(|revision| may_become_ready(revision));
        names.extend(revisions.map(|revision| &revision.name));
        if !Arc::ptr_eq(&self.routes, &before.routes) {
            let queues = self.routes.queues.keys();
            names.extend(queues.filter(|name| !before.routes.queues.contains_key(*name)));
        }
        let queues = self.routes.queues.iter();
        let handing_over = queues.filter(|(_, queue)| queue.next_handover().is_some());
        names.extend(handing_over.map(|(name, _)| name));
        let queues = names.into_iter();
        queues.filter_map(|name| self.routes.queues.get_key_value(name)).collect()
    }

    /// Probes replicas that were not probed yet. Each probe ends with its replica, or notifies `is_ready` once the
    /// replica is ready.
    pub(crate) fn probe_replicas(&self, before: &Self, is_ready: &Arc<Notify>) {
        for (name, queue) in self.changed(before) {
            let revision = self.snapshot.revision(name);
            if let Some(revision) = revision.filter(|one| one.ready_call == ReadyCall::V2) {
                probe_replicas(queue, revision, is_ready);
            }
        }
    }

    /// Closes connections to replicas and gateways that have been idle for a long time.
    pub(crate) fn close_idle_connections(&self, now: Instant) {
        for queue in self.routes.queues.values() {
            for (upstream, _, _) in queue.replicas() {
                upstream.http1_pool.trim(now);
            }
        }
        for peer in &self.peers {
            peer.http1_pool.trim(now);
        }
    }

    /// Updates the queues that may have changed.
    fn update(&self, before: &Self, options: &Options) {
        for (name, queue) in self.changed(before) {
            let gateways = GatewaySet::new(names(&self.snapshot), &options.name, name.as_str());
            let revision = self.snapshot.revision(name);
            queue.start(self.credits_from);
            queue.update(revision_state(queue, revision, queue.limit(), gateways, options));
            if let Some(revision) = revision {
                close_ending(queue, revision);
            }
        }
    }

    fn peer(&self, gateway: &weir_cluster::Gateway, options: &Options) -> Arc<Upstream> {
        let fresh = Upstream::of_gateway(gateway, options.peers.clone());
        let same = self.peers.iter().find(|peer| ***peer == fresh);
        same.cloned().unwrap_or_else(|| Arc::new(fresh))
    }

    /// Closes the queues of the revisions whose route was removed, and returns them: requests at a replica finish, queued
    /// requests fail. The queues are not updated again, so all replicas count as closed from now on.
    fn close_unrouted<'a>(&self, before: &'a Self, options: &Options) -> Vec<&'a Arc<RevisionQueue>> {
        if Arc::ptr_eq(&self.routes, &before.routes) {
            return Vec::new();
        }
        let queues = before.routes.queues.iter();
        let unrouted: Vec<_> = queues.filter(|(name, _)| !self.routes.queues.contains_key(*name)).collect();
        for (name, queue) in &unrouted {
            let limit = QueueLimit { requests: 0, bytes: 0 };
            let revision = self.snapshot.revision(name);
            let gateways = GatewaySet::new(names(&self.snapshot), &options.name, name.as_str());
            let mut last = revision_state(queue, revision, limit, gateways, options);
            last.scale = Scale::Gone;
            for replica in &mut last.replicas {
                replica.state = EndpointState::Closed;
                replica.replica.http1_pool.close();
            }
            queue.update(last);
        }
        unrouted.into_iter().map(|(_, queue)| queue).collect()
    }
}

/// Returns the gateways' names, sorted.
fn names(snapshot: &Snapshot) -> impl ExactSizeIterator<Item = &str> + Clone {
    snapshot.gateways.iter().map(|gateway| &*gateway.name)
}

/// Returns true if a probe may find a replica ready before the platform does.
fn may_become_ready(revision: &Revision) -> bool {
    revision.in_phase(Phase::Starting).next().is_some()
}

fn revision_state(
    queue: &RevisionQueue,
    revision: Option<&Arc<Revision>>,
    limit: QueueLimit,
    gateways: GatewaySet,
    options: &Options,
) -> RevisionState {
    let Some(revision) = revision else {
        return RevisionState {
            limit,
            gateways,
            replicas: Vec::new(),
            scale: Scale::Zero,
            failure: None,
            outlook: Outlook::Starts,
            last_exit: None,
            reported: Vec::new(),
        };
    };
    let known = queue.replicas();
    let concurrency = revision.concurrency.map(NonZeroU32::get);
    let alive = revision.replicas.iter().filter(|replica| is_alive(replica.phase));
    let spec = |replica: &Replica| {
        let fresh = Upstream::of_replica(replica, revision, options.replicas.as_ref());
        let same = known.iter().find(|(upstream, _, _)| **upstream == fresh);
        let upstream = same.map_or_else(|| Arc::new(fresh), |(upstream, _, _)| Arc::clone(upstream));
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
        scale: if revision.is_at_zero() { Scale::Zero } else { Scale::Up },
        failure: revision.failure.clone(),
        outlook: revision.outlook(),
        last_exit: revision.last_exit().cloned(),
        reported: revision.replicas.clone(),
    }
}

/// Closes the idle connections to replicas that end.
fn close_ending(queue: &RevisionQueue, revision: &Revision) {
    for ending in revision.in_phase(Phase::Terminating) {
        let replicas = queue.replicas().into_iter().map(|(upstream, _, _)| upstream);
        for upstream in replicas.filter(|upstream| upstream.name == ending.name) {
            upstream.http1_pool.close();
        }
    }
}

/// Returns true if a replica in this phase may still answer its open requests.
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

/// Starts a probe of each replica of the revision that was not probed yet. The task ends with its replica, or notifies
/// `is_ready`.
fn probe_replicas(queue: &Arc<RevisionQueue>, revision: &Revision, is_ready: &Arc<Notify>) {
    for (upstream, _, _) in queue.replicas() {
        let mut replicas = revision.replicas.iter();
        let replica = replicas.find(|replica: &&Replica| upstream.is(replica));
        let is_up = replica.is_some_and(|replica| match replica.phase {
            Phase::Starting | Phase::Ready => true,
            Phase::Pending | Phase::Unready | Phase::BackOff | Phase::Terminating => false,
        });
        if is_up && upstream.begins_probe() {
            let (queue, reporter) = (Arc::clone(queue), Arc::clone(&upstream));
            let report = move |capacity| queue.report_capacity(&reporter, capacity);
            tokio::spawn(probe_until_ready(upstream, Arc::clone(is_ready), report));
        }
    }
}
