//! Routes: the hosts of a service, the revisions that serve its requests, and limits on its requests.

mod domains;
mod split;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use domains::Domains;
pub use split::{Split, Target};
pub use table::{Conflict, HostClaim, Routes};

use weir_access::ServiceRules;

use crate::{Host, RevisionName, ServiceName, Tag};

/// Route of one service: its hosts, its destination revisions, and the limits of its requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The service that the route leads to.
    pub service: ServiceName,
    /// Creation time of the service, in seconds since 1970: if two services claim a host, the older one gets it.
    pub since: u64,
    /// Fully qualified hosts that lead to the service.
    pub hosts: Vec<Host>,
    /// Claimed hosts that do not follow from the service's name. Requests to them are not routed.
    pub refused_hosts: Vec<Host>,
    /// V2 model name that leads to the service on any host. Set only by `weir up`; `None` on Kubernetes, where requests
    /// name the service by host or path.
    pub model: Option<Arc<str>>,
    /// Destination of requests that name no revision.
    pub destination: Destination,
    /// Revisions that are reachable under a tag.
    pub tags: Vec<Tagged>,
    /// Maximum duration of a request; `None` sets no limit.
    pub timeout: Option<Duration>,
    /// Maximum time that a request waits for a revision to start from zero.
    pub activation_timeout: Duration,
    /// Maximum number of requests waiting for one revision.
    pub max_queue: u32,
    /// Set if the gateway forms batches because the runtime does not.
    pub batching: Option<Batching>,
    /// Set if a share of the requests is also sent to another revision, whose responses are discarded.
    pub mirror: Option<Mirror>,
    /// Access of clients to the control calls of the service's servers.
    pub control: ControlRoutes,
    /// Rules by which clients may use this service, beside those of the gateways. Unused in a gateway without access
    /// control.
    pub access: ServiceRules,
    /// Support of OpenAI's API by the service's servers, for the list of models.
    pub openai: OpenAiApi,
    /// Requests that the route receives beside those to its hosts.
    pub entrance: Entrance,
}

/// Support of OpenAI's API by a service's servers, as far as it is declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenAiApi {
    /// Neither the service nor its runtime declares it, so the servers may support the API.
    #[default]
    Undeclared,
    /// The servers support the API.
    Supported,
    /// The servers do not have the API.
    Absent,
}

/// Requests that a route receives beside those to its hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Entrance {
    /// Requests to the path of the service, and to its model name if the gateway routes by it.
    #[default]
    Service,
    /// No other requests: another component of the service receives those.
    Component,
}

/// Access to the calls that control a server: model loading, shared memory, tracing, logging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlRoutes {
    /// Gateways refuse these calls.
    #[default]
    Closed,
    /// Every client that may send inference requests may also send control calls.
    Open,
}

/// Destination of requests that name no revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The revisions share the requests by weight.
    Split(Split),
    /// No revision: each request is refused with this sentence.
    Nowhere(Arc<str>),
}

/// A revision that is reachable under a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged {
    /// The tag, as in the header `weir-tag`.
    pub tag: Tag,
    /// Hosts that lead to this revision.
    pub hosts: Vec<Host>,
    /// The revision that the tag stands for.
    pub revision: RevisionName,
}

/// Limits of the batches that a gateway forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Maximum number of instances in a batch.
    pub max_size: u32,
    /// Maximum time that an instance waits for the batch to fill.
    pub max_latency: Duration,
}

/// Mirroring of requests to another revision, whose responses are discarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The revision that receives the copies.
    pub revision: RevisionName,
    /// Copies per hundred requests, 1..=100.
    pub percent: u8,
}

impl Route {
    /// Default of [`Self::activation_timeout`]. Common clients give up after 60 s and should receive the gateway's
    /// error message before that.
    pub const ACTIVATION_TIMEOUT: Duration = Duration::from_secs(55);

    /// Default of [`Self::max_queue`], the same as the runtime's `--max-queue`.
    pub const MAX_QUEUE: u32 = 4096;

    /// Creates a route without hosts and tags; all other fields have their defaults.
    #[must_use]
    pub fn new(service: ServiceName, destination: Destination) -> Self {
        Self {
            service,
            since: 0,
            hosts: Vec::new(),
            refused_hosts: Vec::new(),
            model: None,
            destination,
            tags: Vec::new(),
            timeout: None,
            activation_timeout: Self::ACTIVATION_TIMEOUT,
            max_queue: Self::MAX_QUEUE,
            batching: None,
            mirror: None,
            control: ControlRoutes::Closed,
            access: ServiceRules::default(),
            openai: OpenAiApi::Undeclared,
            entrance: Entrance::Service,
        }
    }

    /// Iterates over all hosts of the route, those of tags included.
    pub fn all_hosts(&self) -> impl Iterator<Item = &Host> {
        let tagged = self.tags.iter().flat_map(|tagged| &tagged.hosts);
        self.hosts.iter().chain(tagged)
    }

    /// Iterates over every revision that the route names; a revision may occur more than once.
    pub fn revisions(&self) -> impl Iterator<Item = &RevisionName> {
        let split = match &self.destination {
            Destination::Split(split) => split.targets(),
            Destination::Nowhere(_) => &[],
        };
        let split = split.iter().map(|target| &target.revision);
        let tagged = self.tags.iter().map(|tagged| &tagged.revision);
        let mirror = self.mirror.iter().map(|mirror| &mirror.revision);
        split.chain(tagged).chain(mirror)
    }
}
