//! Routes: how a service is reached, and the revisions that its requests go to.

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

use crate::{Host, RevisionName, ServiceName, Tag};

/// How one service is reached, and what its requests may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The service that it leads to.
    pub service: ServiceName,
    /// Time at which the service was made, in seconds since 1970: of two that claim a host, the older keeps it.
    pub since: u64,
    /// The hosts that lead to the service, each in full.
    pub hosts: Vec<Host>,
    /// Hosts that were claimed for the service and that do not follow from its name: they lead nowhere.
    pub refused_hosts: Vec<Host>,
    /// The V2 model name that leads to it whatever the host, where only one platform is served.
    pub model: Option<Arc<str>>,
    /// Where requests go that name no revision.
    pub destination: Destination,
    /// Revisions with names of their own.
    pub tags: Vec<Tagged>,
    /// The longest a request may take in all.
    pub timeout: Option<Duration>,
    /// The longest a request waits for a revision to come up from zero.
    pub activation_timeout: Duration,
    /// The most requests that wait for one revision.
    pub max_queue: u32,
    /// Set where the gateway gathers batches because the runtime does not.
    pub batching: Option<Batching>,
    /// Set where some requests are also sent to another revision, its answers thrown away.
    pub mirror: Option<Mirror>,
    /// What the service's clients may ask of its servers beside inference.
    pub control: ControlRoutes,
}

/// Use of the calls that control a server: loading, shared memory, tracing, logging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlRoutes {
    /// Gateways refuse these calls.
    #[default]
    Closed,
    /// Whoever may infer may control, too.
    Open,
}

/// Where requests go that name no revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To these revisions, by weight.
    Split(Split),
    /// Nowhere: each gets this sentence for an answer.
    Nowhere(Arc<str>),
}

/// One revision under a name of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged {
    /// The name, as the header `weir-tag` gives it.
    pub tag: Tag,
    /// The hosts that lead to it.
    pub hosts: Vec<Host>,
    /// The revision that the name leads to.
    pub revision: RevisionName,
}

/// Bounds of the batches that a gateway gathers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// The most instances in one.
    pub max_size: u32,
    /// The longest an instance waits for others.
    pub max_latency: Duration,
}

/// Mirroring of requests to another revision, its answers thrown away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The revision that gets the copies.
    pub revision: RevisionName,
    /// Copies per hundred requests, 1..=100.
    pub percent: u8,
}

impl Route {
    /// Default of [`Self::activation_timeout`]: common clients give up at 60 s, and should see our
    /// sentence before that.
    pub const ACTIVATION_TIMEOUT: Duration = Duration::from_secs(55);

    /// Default of [`Self::max_queue`], the same as the runtime's `--max-queue`.
    pub const MAX_QUEUE: u32 = 4096;

    /// A route without hosts, tags and extras, everything else by default.
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
        }
    }

    /// Every host that leads to it, by a tag or without.
    pub fn all_hosts(&self) -> impl Iterator<Item = &Host> {
        let tagged = self.tags.iter().flat_map(|tagged| &tagged.hosts);
        self.hosts.iter().chain(tagged)
    }

    /// Every revision it names, some perhaps twice.
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
