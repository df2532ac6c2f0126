//! The routes of all services, and the resolution of hosts that several services claim.

use std::collections::HashMap;
use std::sync::Arc;

use super::Route;
use crate::{Host, ServiceName};

/// The route table: routes of all services.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// Increases with every change of any route. A gateway reports the generation that it has applied.
    pub generation: u64,
    /// Sorted by age, oldest service first: if several services claim a host or a model name, the first one gets it.
    routes: Vec<Arc<Route>>,
}

/// A host that a service claims but another service has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The claimed host name.
    pub host: Host,
    /// The service that has the host.
    pub holder: ServiceName,
    /// The service that does not get the host.
    pub loser: ServiceName,
}

/// A route's claim of a host, for the service or for one of its tags.
#[derive(Clone, Copy, Debug)]
pub struct HostClaim<'a> {
    /// The claimed host name.
    pub host: &'a Host,
    /// The route that claims the host.
    pub route: &'a Arc<Route>,
    /// Index of the tag, among the route's tags, that the host belongs to; `None` for a host of the service itself.
    pub tag: Option<u32>,
}

impl Routes {
    /// Creates a table, sorted by the precedence of the routes.
    #[must_use]
    pub fn new(generation: u64, mut routes: Vec<Arc<Route>>) -> Self {
        routes.sort_by(|a, b| (a.since, &a.service).cmp(&(b.since, &b.service)));
        Self { generation, routes }
    }

    /// All routes, oldest service first.
    #[must_use]
    pub fn as_slice(&self) -> &[Arc<Route>] {
        &self.routes
    }

    /// Returns the route of one service.
    #[must_use]
    pub fn of(&self, service: &ServiceName) -> Option<&Arc<Route>> {
        self.routes.iter().find(|route| route.service == *service)
    }

    /// Returns, for each host, the claim that gets it: the oldest service's. Within a namespace, a service's own host
    /// takes precedence over the host of another service's tag (`prev-digits` may be a service, or the tag `prev` of
    /// `digits`). A service of another namespace takes neither.
    #[must_use]
    pub fn holders(&self) -> HashMap<&Host, HostClaim<'_>> {
        let mut holders = HashMap::<&Host, HostClaim<'_>>::new();
        for claim in self.routes.iter().flat_map(claims) {
            let holder = holders.entry(claim.host).or_insert(claim);
            if claim.goes_before(holder) {
                *holder = claim;
            }
        }
        holders
    }

    /// Returns the claims that lost, for a condition on each losing service.
    #[must_use]
    pub fn conflicts(&self) -> Vec<Conflict> {
        let holders = self.holders();
        let mut conflicts = Vec::new();
        for HostClaim { host, route, .. } in self.routes.iter().flat_map(claims) {
            let holder = holders.get(host).map(|holder| &holder.route.service);
            if let Some(holder) = holder.filter(|holder| **holder != route.service) {
                conflicts.push(Conflict { host: host.clone(), holder: holder.clone(), loser: route.service.clone() });
            }
        }
        conflicts
    }
}

impl HostClaim<'_> {
    /// Returns true if this is a service's own host, and the holder is the tag of an older service in the same
    /// namespace.
    fn goes_before(&self, holder: &Self) -> bool {
        let is_own_before_tag = self.tag.is_none() && holder.tag.is_some();
        is_own_before_tag && self.route.service.namespace() == holder.route.service.namespace()
    }
}

/// Iterates over the claims of a route: the service's hosts, then those of the tags.
fn claims(route: &Arc<Route>) -> impl Iterator<Item = HostClaim<'_>> {
    let own = route.hosts.iter().map(move |host| HostClaim { host, route, tag: None });
    own.chain(tagged(route))
}

/// Iterates over the claims of a route's tags.
fn tagged(route: &Arc<Route>) -> impl Iterator<Item = HostClaim<'_>> {
    (0..).zip(&route.tags).flat_map(move |(tag, tagged)| {
        let tag = Some(tag);
        let hosts = tagged.hosts.iter();
        hosts.map(move |host| HostClaim { host, route, tag })
    })
}
