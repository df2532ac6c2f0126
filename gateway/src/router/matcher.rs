//! Finds the service to which a request is addressed.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use http::request::Parts;
use weir_cluster::{
    ComponentKind, Destination, Entrance, Host, HostClaim, RevisionName, Route, Routes, ServiceName, nearest,
};
use weir_serve::known_hosts::KnownHosts;

use super::split::choose_by_weight;
use crate::access::Guard;
use crate::error::GatewayError;
use crate::options::Scope;

/// Maximum number of names that a "not found" error lists, so that it fits a screen.
const MAX_LISTED: usize = 20;

/// Path prefix under which a gateway serves services on any host.
const PREFIX: &str = "/serving/";

/// Maximum number of services that the error about an ambiguous model names, so that its length is bounded.
const MOST_NAMED: usize = 4;

/// The routes, indexed by host, service and model. If two services use one host, the older one has it. A model's name may
/// lead to services of several namespaces.
#[derive(Clone, Debug)]
pub(crate) struct RouteMatcher {
    scope: Scope,
    known_hosts: KnownHosts,
    hosts: HashMap<Host, HostEntry>,
    /// Routes by their service, as `{namespace}/{name}`.
    services: HashMap<String, Arc<Route>>,
    models: HashMap<Arc<str>, Vec<Arc<Route>>>,
    /// Routes of explainers by the name of the whole service.
    explainers: HashMap<ServiceName, Arc<Route>>,
}

#[derive(Clone, Debug)]
struct HostEntry {
    route: Arc<Route>,
    /// Index of the route's tag; `None` for a host of the service itself.
    tag: Option<u32>,
}

/// The service to which a request is addressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RouteMatch<'a> {
    pub(crate) route: &'a Arc<Route>,
    /// Revision of a tag's host; `None` if the split chooses.
    pub(crate) revision: Option<&'a RevisionName>,
    /// Length of the path prefix that is removed for the replica, in bytes.
    pub(crate) prefix: usize,
    /// Scope of the gateway, which decides whether errors may list names.
    pub(crate) scope: Scope,
}

impl RouteMatcher {
    /// Indexes the routes by host, service and model.
    pub(crate) fn new(routes: &Routes, scope: Scope, known_hosts: KnownHosts) -> Self {
        let holders = routes.holders();
        let mut matcher = Self {
            scope,
            known_hosts,
            hosts: holders.into_values().map(HostEntry::of).collect(),
            services: HashMap::with_capacity(routes.as_slice().len()),
            models: HashMap::new(),
            explainers: HashMap::new(),
        };
        for route in routes.as_slice() {
            matcher.add(route);
        }
        matcher
    }

    fn add(&mut self, route: &Arc<Route>) {
        if route.service.component() == ComponentKind::Explainer {
            self.explainers.entry(route.service.whole()).or_insert_with(|| route.clone());
        }
        if route.entrance == Entrance::Component {
            return;
        }
        let name = format!("{}/{}", route.service.namespace(), route.service.name());
        self.services.entry(name).or_insert_with(|| route.clone());
        if let (Some(model), Scope::Local) = (&route.model, self.scope) {
            self.models.entry(model.clone()).or_default().push(route.clone());
        }
    }

    /// Returns the service with this host or, if there is none, with this path.
    pub(crate) fn by_address(&self, host: Option<&str>, path: &str) -> Option<RouteMatch<'_>> {
        let entry = host.and_then(|host| self.hosts.get(&*plain_host(host)));
        if let Some(entry) = entry {
            return Some(RouteMatch { route: &entry.route, revision: entry.revision(), prefix: 0, scope: self.scope });
        }
        let service = service_of_path(path)?;
        let route = self.services.get(service)?;
        Some(RouteMatch { route, revision: None, prefix: PREFIX.len() + service.len(), scope: self.scope })
    }

    /// Returns the service with this V2 model name. In a cluster no service is found by a model's name.
    ///
    /// Services of several namespaces may have one name. Only those that `sees` accepts count, if there are any: the
    /// sender may learn nothing of the others.
    ///
    /// # Errors
    /// [`GatewayError::NoRoute`] if no service has the name; [`GatewayError::AmbiguousModel`] if several have it.
    pub(crate) fn by_model(&self, model: &str, sees: impl Fn(&Route) -> bool) -> Result<RouteMatch<'_>, GatewayError> {
        let named = self.models.get(model).map_or(&[][..], Vec::as_slice);
        let route = match named {
            // Usually one service has the name, and the check of the request decides about it.
            [only] => only,
            _ => {
                let mut visible = named.iter().filter(|route| sees(route));
                let first = visible.next().or(named.first());
                let route = first.ok_or_else(|| self.no_model(model))?;
                if visible.next().is_some() {
                    return Err(ambiguous(model, named.iter().filter(|route| sees(route))));
                }
                route
            }
        };
        Ok(RouteMatch { route, revision: None, prefix: 0, scope: self.scope })
    }

    /// Returns the match of the component that answers a request: the service's explainer if the request asks for an
    /// explanation, and otherwise the one found. A request to a host of one component or of a tag stays there.
    pub(crate) fn component<'a>(&'a self, found: &RouteMatch<'a>, path: &str) -> RouteMatch<'a> {
        let is_of_service = found.route.entrance == Entrance::Service && found.revision.is_none();
        if !is_of_service || !is_explanation(path) {
            return *found;
        }
        let explainer = self.explainers.get(&found.route.service.whole());
        RouteMatch { route: explainer.unwrap_or(found.route), ..*found }
    }

    /// Checks that a request is for a known host or that of a service which the sender may use, and does not come from
    /// another site.
    ///
    /// # Errors
    /// [`GatewayError::Foreign`] for an unknown host or another site.
    pub(crate) fn check_host(&self, parts: &Parts, guard: &Guard<'_>) -> Result<(), GatewayError> {
        let is_served = |host: &str| self.hosts.get(&*plain_host(host)).is_some_and(|entry| guard.sees(&entry.route));
        let checked = self.known_hosts.check(parts, is_served);
        checked.map_err(GatewayError::Foreign)
    }

    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns the error of a request for a model that no service has.
    pub(crate) fn no_model(&self, model: &str) -> GatewayError {
        let names = self.models.keys().map(|name| &**name);
        let meant = || nearest(names, model);
        self.no_route(format!("model {model:?}"), meant)
    }

    /// Returns the error of a request whose host and path match no service.
    pub(crate) fn no_address(&self, host: Option<&str>, path: &str) -> GatewayError {
        let host = host.unwrap_or_default();
        let services = self.services.keys().map(String::as_str);
        let hosts = self.hosts.keys().map(Host::as_str);
        let meant = || match service_of_path(path) {
            Some(service) => nearest(services, service),
            None => nearest(hosts, &plain_host(host)),
        };
        self.no_route(format!("host {host:?}, path {path:?}"), meant)
    }

    /// Returns the error of a gRPC call to an unknown method, whose host and path match no service.
    pub(crate) fn no_method(&self, method: &str) -> GatewayError {
        GatewayError::NoMethod { method: method.to_owned(), known: self.known(|| None) }
    }

    fn no_route<'a>(&self, asked: String, meant: impl FnOnce() -> Option<&'a str>) -> GatewayError {
        let known = self.known(meant);
        GatewayError::NoRoute { asked, known }
    }

    /// Returns a hint for the sender of a request that matches no service. Only on one machine does it list the
    /// services and the one that was probably meant.
    fn known<'a>(&self, meant: impl FnOnce() -> Option<&'a str>) -> String {
        match self.scope {
            Scope::Cluster => "check the host or path of the request".to_owned(),
            Scope::Local => {
                let services = format!("known services: {}", self.listed_services());
                match meant() {
                    Some(meant) => format!("did you mean {meant:?}? {services}"),
                    None => services,
                }
            }
        }
    }

    fn listed_services(&self) -> String {
        listed(self.services.keys().map(String::as_str))
    }
}

impl HostEntry {
    /// Returns the host of a claim, and the entry that it gets in the table of hosts.
    fn of(claim: HostClaim<'_>) -> (Host, Self) {
        let entry = Self { route: claim.route.clone(), tag: claim.tag };
        (claim.host.clone(), entry)
    }

    /// Returns the revision that gets all requests of a tag's host; `None` for other hosts.
    fn revision(&self) -> Option<&RevisionName> {
        let tagged = self.route.tags.get(self.tag? as usize)?;
        Some(&tagged.revision)
    }
}

impl<'a> RouteMatch<'a> {
    /// Returns the revision of the request. The header `weir-revision` takes precedence, then the header `weir-tag`,
    /// then the host of a tag. Without any of them, the split chooses the revision for `sample`.
    ///
    /// # Errors
    /// [`GatewayError::NoRevision`] for a revision or tag that the service does not have; [`GatewayError::Nowhere`] if
    /// the service sends its requests to no revision.
    pub(crate) fn revision(
        &self,
        pin: Option<&str>,
        tag: Option<&str>,
        sample: impl FnOnce() -> u32,
    ) -> Result<&'a RevisionName, GatewayError> {
        if let Some(pin) = pin {
            let known = || self.route.revisions();
            let found = known().find(|revision| revision.as_str() == pin);
            return found.ok_or_else(|| self.unknown("revision", pin, listed(known().map(RevisionName::as_str))));
        }
        if let Some(tag) = tag {
            let tags = || self.route.tags.iter();
            let found = tags().find(|tagged| tagged.tag.as_str() == tag);
            let names = || listed(tags().map(|tagged| tagged.tag.as_str()));
            let found = found.ok_or_else(|| self.unknown("tag", tag, names()));
            return found.map(|tagged| &tagged.revision);
        }
        match (self.revision, &self.route.destination) {
            (Some(revision), _) => Ok(revision),
            (None, Destination::Split(split)) => match split.targets() {
                [only] => Ok(&only.revision),
                _ => Ok(choose_by_weight(split, sample())),
            },
            (None, Destination::Nowhere(because)) => Err(GatewayError::Nowhere(because.clone())),
        }
    }

    fn unknown(&self, what: &'static str, asked: &str, known: String) -> GatewayError {
        let known = match self.scope {
            Scope::Local => format!("; there are: {known}"),
            Scope::Cluster => String::new(),
        };
        GatewayError::NoRevision { service: self.route.service.to_string(), what, asked: asked.to_owned(), known }
    }
}

/// Returns the error of a request for a model that all of these services have, with the paths that tell them apart.
fn ambiguous<'a>(model: &str, routes: impl Iterator<Item = &'a Arc<Route>>) -> GatewayError {
    let paths = routes.map(|route| format!("{PREFIX}{}/{}", route.service.namespace(), route.service.name()));
    let paths: Vec<_> = paths.take(MOST_NAMED).collect();
    GatewayError::AmbiguousModel { model: model.to_owned(), paths: paths.join(", ") }
}

/// True for the path of V1's explanation, `/v1/models/{model}:explain`, below any prefix.
fn is_explanation(path: &str) -> bool {
    let model = path.strip_suffix(":explain").and_then(|before| before.rsplit_once("/v1/models/"));
    model.is_some_and(|(_, model)| !model.is_empty() && !model.contains('/'))
}

/// Returns the `{namespace}/{name}` in a path below [`PREFIX`].
fn service_of_path(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(PREFIX)?;
    let namespace = rest.find('/')?;
    let name = rest[namespace + 1..].find('/');
    let end = name.map_or(rest.len(), |name| namespace + 1 + name);
    Some(&rest[..end])
}

/// Returns a host in the form of the table's keys: in lower case, without port and final dot. Copies it only if it has
/// capitals.
fn plain_host(authority: &str) -> Cow<'_, str> {
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host,
        Some(_) | None => authority,
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(MAX_LISTED);
    names.truncate(MAX_LISTED);
    match (names.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}
