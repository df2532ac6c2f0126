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

    /// The hosts that are claimed in vain, for a condition on each loser.
    #[must_use]
    pub fn conflicts(&self) -> Vec<Conflict> {
        let mut holders: HashMap<&Host, &ServiceName> = HashMap::new();
        let mut conflicts = Vec::new();
        for route in &self.routes {
            for host in route.all_hosts() {
                let holder = *holders.entry(host).or_insert(&route.service);
                if *holder != route.service {
                    conflicts.push(Conflict {
                        host: host.clone(),
                        holder: holder.clone(),
                        loser: route.service.clone(),
                    });
                }
            }
        }
        conflicts
    }
}
