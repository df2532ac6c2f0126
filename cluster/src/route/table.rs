//! The routes of all services, and the holder of each host that two claim.

use std::collections::HashMap;
use std::sync::Arc;

use super::Route;
use crate::{Host, ServiceName};

/// The routes of all services.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// Grows with every change of any route. A gateway reports the one that it has applied.
    pub generation: u64,
    /// Oldest service first: for a host or a model that two claim, the first keeps it.
    routes: Vec<Arc<Route>>,
}

/// A host that a service claims in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The host that is claimed.
    pub host: Host,
    /// The service that has it.
    pub holder: ServiceName,
    /// The service that does not get it.
    pub loser: ServiceName,
}

/// A host that leads to a service, or to one of its revisions.
#[derive(Clone, Copy, Debug)]
pub struct HostClaim<'a> {
    /// The host that is claimed.
    pub host: &'a Host,
    /// The route that claims it.
    pub route: &'a Arc<Route>,
    /// Which of the route's tags the host is of; `None` for a host of the service itself.
    pub tag: Option<u32>,
}

impl Routes {
    /// Puts routes in the order in which they win.
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

    /// The route of one service.
    #[must_use]
    pub fn of(&self, service: &ServiceName) -> Option<&Arc<Route>> {
        self.routes.iter().find(|route| route.service == *service)
    }

    /// The claim that has each host: the oldest service's. Within a namespace a service's own host goes before a tag that another
    /// makes of its own, as `prev-digits` is of `digits`; a service of another namespace takes neither.
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

    /// The hosts that are claimed in vain, for a condition on each loser.
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
    /// True for a service's own host that an older service's tag has, in the same namespace.
    fn goes_before(&self, holder: &Self) -> bool {
        let is_own_before_tag = self.tag.is_none() && holder.tag.is_some();
        is_own_before_tag && self.route.service.namespace() == holder.route.service.namespace()
    }
}

/// The claims of a route: its own hosts, then those of its tags.
fn claims(route: &Arc<Route>) -> impl Iterator<Item = HostClaim<'_>> {
    let own = route.hosts.iter().map(move |host| HostClaim { host, route, tag: None });
    own.chain(tagged(route))
}

/// The claims of a route's tags.
fn tagged(route: &Arc<Route>) -> impl Iterator<Item = HostClaim<'_>> {
    (0..).zip(&route.tags).flat_map(move |(tag, tagged)| {
        let tag = Some(tag);
        let hosts = tagged.hosts.iter();
        hosts.map(move |host| HostClaim { host, route, tag })
    })
}
