//! The routing table: the routes, and the matchers, queues and counters that belong to them.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::watch;
use weir_cluster::{ComponentKind, RevisionName, Route, Routes, ServiceName};

use super::matcher::RouteMatcher;
use super::mirror::MirrorCounts;
use super::split;
use crate::access::Opened;
use crate::options::{Options, Scope};
use crate::queue::{QueueLimit, RevisionQueue, WakeUps};

/// Routes as requests see them. The table is replaced as a whole; queues and counters carry over.
pub(crate) struct RouteTable {
    pub(crate) routes: Arc<Routes>,
    pub(crate) matcher: RouteMatcher,
    pub(crate) queues: HashMap<RevisionName, Arc<RevisionQueue>>,
    /// Queues of the components that may call others, by the name of the whole service.
    callers: HashMap<ServiceName, Vec<Arc<RevisionQueue>>>,
    /// Counts of each revision that mirrors a service.
    pub(crate) mirrors: HashMap<RevisionName, Arc<MirrorCounts>>,
    /// Services that should have a route; `None` if that is unknown.
    pub(crate) declared: Option<watch::Receiver<Arc<BTreeSet<ServiceName>>>>,
    /// Maximum number of bytes of a body that are buffered to find its model.
    pub(super) request_buffer: usize,
    /// Access of requests without a key by the services' own rules, for requests whose head names no service.
    pub(super) opened: Opened,
    /// Number of requests for which each service's split has chosen a revision.
    splits: HashMap<ServiceName, Arc<AtomicU32>>,
}

impl RouteTable {
    /// Creates a table without queues.
    pub(crate) fn empty(routes: Arc<Routes>, options: &Options) -> Self {
        Self {
            matcher: RouteMatcher::new(&routes, options.scope, options.hosts.clone()),
            queues: HashMap::new(),
            callers: HashMap::new(),
            mirrors: HashMap::new(),
            declared: options.declared.clone(),
            request_buffer: options.request_buffer,
            splits: HashMap::new(),
            opened: opened(&routes),
            routes,
        }
    }

    /// Creates the table for new routes, with the queues and counters that are still in use.
    pub(crate) fn next(&self, routes: &Arc<Routes>, options: &Options, wakes: &Arc<WakeUps>) -> Self {
        let mut next = Self::empty(Arc::clone(routes), options);
        for route in routes.as_slice() {
            let count = self.splits.get(&route.service).cloned().unwrap_or_default();
            next.splits.insert(route.service.clone(), count);
            if let Some(mirror) = &route.mirror {
                let counts = self.mirrors.get(&mirror.revision).cloned();
                let name = mirror.revision.clone();
                next.mirrors.insert(name, counts.unwrap_or_default());
            }
            for name in route.revisions() {
                if !next.queues.contains_key(name) {
                    next.add(self.queue(name, limit(route, options), wakes));
                }
            }
        }
        next
    }

    /// Returns the position of the service's next request in its split sequence, 0..2^32.
    pub(super) fn next_sample(&self, service: &ServiceName) -> u32 {
        let count = self.splits.get(service);
        split::sample(count.map_or(0, |count| count.fetch_add(1, Ordering::Relaxed)))
    }

    /// Returns true if a pod of another component that calls this service has this IP address. A transformer calls its
    /// predictor through the gateway, without a key. On one machine all processes have the same address.
    pub(super) fn has_caller_at(&self, service: &ServiceName, from: IpAddr) -> bool {
        if self.matcher.scope() == Scope::Local {
            return false;
        }
        let components = self.callers.get(&service.whole()).into_iter().flatten();
        let callers = components.filter(|queue| queue.name.service() != service);
        callers.flat_map(|queue| queue.replicas()).any(|(upstream, ..)| upstream.is_at(from))
    }

    fn add(&mut self, queue: Arc<RevisionQueue>) {
        let component = queue.name.service();
        if may_call(component) {
            self.callers.entry(component.whole()).or_default().push(Arc::clone(&queue));
        }
        self.queues.insert(queue.name.clone(), queue);
    }

    fn queue(&self, name: &RevisionName, limit: QueueLimit, wakes: &Arc<WakeUps>) -> Arc<RevisionQueue> {
        match self.queues.get(name) {
            Some(queue) => {
                queue.set_limit(limit);
                Arc::clone(queue)
            }
            None => Arc::new(RevisionQueue::new(name.clone(), limit, Arc::clone(wakes))),
        }
    }
}

/// Returns true if the component may call other components of its InferenceService. A predictor calls none, so the
/// address of its pods, which may be that of a node, opens nothing.
fn may_call(component: &ServiceName) -> bool {
    component.component() != ComponentKind::Predictor
}

fn opened(routes: &Routes) -> Opened {
    let mut routes = routes.as_slice().iter();
    if routes.any(|route| route.access.admit_anyone()) { Opened::ToAnyone } else { Opened::ToClients }
}

fn limit(route: &Route, options: &Options) -> QueueLimit {
    QueueLimit { requests: route.max_queue as usize, bytes: options.queue_bytes }
}

#[cfg(test)]
mod tests {
    use weir_cluster::{Destination, Split};

    use super::*;
    use crate::queue::testing::set_replicas;

    fn route(component: &ServiceName) -> Arc<Route> {
        let revision = component.revision(1).unwrap();
        Arc::new(Route::new(component.clone(), Destination::Split(Split::all(revision))))
    }

    #[test]
    fn a_caller_is_a_transformer_of_the_same_service_and_is_found_without_a_look_at_other_services() {
        let service = |name| ServiceName::new("default", name).unwrap();
        let (digits, other) = (service("digits"), service("other"));
        let transformer = digits.of_component(ComponentKind::Transformer).unwrap();
        let routes = Routes::new(1, [&digits, &transformer, &other].map(route).to_vec());
        let options = Options::new("gateway", Scope::Cluster);
        let table = RouteTable::empty(Arc::default(), &options).next(&Arc::new(routes), &options, &Arc::default());
        let here = IpAddr::from([127, 0, 0, 1]);
        assert!(!table.has_caller_at(&digits, here));
        table.queues.values().for_each(|queue| set_replicas(queue, &[Some(1)]));
        assert!(table.has_caller_at(&digits, here) && !table.has_caller_at(&digits, IpAddr::from([127, 0, 0, 2])));
        assert!(!table.has_caller_at(&transformer, here) && !table.has_caller_at(&other, here));
        assert_eq!(table.callers.values().map(Vec::len).collect::<Vec<_>>(), [1]);
    }
}
