//! Serialized form of a route: the annotation of its Service that gateways read.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_access::{Rule, ServiceRules};
use weir_cluster::{
    Batching, ClusterError, ControlRoutes, Destination, Entrance, Host, Mirror, OpenAiApi, RevisionName, Route,
    ServiceName, Split, Tag, Tagged, Target,
};

use super::read_time;

/// Route without the name of its service. Everyone who may edit Services of the namespace can write one, so only claims
/// about its own service are accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WrittenRoute {
    /// Creation time for older gateways. Newer ones use the object's own creation time.
    since: u64,
    hosts: Vec<String>,
    model: Option<String>,
    destination: WrittenDestination,
    #[serde(default)]
    tags: Vec<WrittenTag>,
    timeout: Option<Duration>,
    activation_timeout: Duration,
    max_queue: u32,
    batching: Option<WrittenBatching>,
    mirror: Option<WrittenShare>,
    /// Access to control routes. Routes written by older versions lack it and count as closed.
    #[serde(default)]
    control: WrittenControl,
    /// Rules for clients of this service. Routes written by older versions lack them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    access: Vec<serde_json::Value>,
    /// Support of OpenAI's API. Routes written by older versions lack it and count as undeclared.
    #[serde(default)]
    openai: WrittenOpenAi,
    /// Requests that the route receives beside those to its hosts. Routes written by older versions lack it.
    #[serde(default)]
    entrance: WrittenEntrance,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WrittenOpenAi {
    #[default]
    Undeclared,
    Supported,
    Absent,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WrittenEntrance {
    #[default]
    Service,
    Component,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WrittenControl {
    #[default]
    Closed,
    Open,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WrittenDestination {
    Split(Vec<WrittenShare>),
    Nowhere(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenShare {
    revision: String,
    share: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenTag {
    tag: String,
    hosts: Vec<String>,
    revision: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenBatching {
    max_size: u32,
    max_latency: Duration,
}

impl WrittenRoute {
    /// Returns the serialized form of a route.
    pub(crate) fn of(route: &Route) -> Self {
        Self {
            since: route.since,
            hosts: texts(&route.hosts),
            model: route.model.as_deref().map(str::to_owned),
            destination: match &route.destination {
                Destination::Split(split) => WrittenDestination::Split(split.targets().iter().map(share).collect()),
                Destination::Nowhere(because) => WrittenDestination::Nowhere(because.to_string()),
            },
            tags: route.tags.iter().map(tag).collect(),
            timeout: route.timeout,
            activation_timeout: route.activation_timeout,
            max_queue: route.max_queue,
            batching: route
                .batching
                .map(|batching| WrittenBatching { max_size: batching.max_size, max_latency: batching.max_latency }),
            mirror: route.mirror.as_ref().map(|mirror| WrittenShare {
                revision: mirror.revision.as_str().to_owned(),
                share: mirror.percent.into(),
            }),
            control: match route.control {
                ControlRoutes::Closed => WrittenControl::Closed,
                ControlRoutes::Open => WrittenControl::Open,
            },
            access: route.access.as_slice().iter().filter_map(|rule| serde_json::to_value(rule).ok()).collect(),
            openai: match route.openai {
                OpenAiApi::Undeclared => WrittenOpenAi::Undeclared,
                OpenAiApi::Supported => WrittenOpenAi::Supported,
                OpenAiApi::Absent => WrittenOpenAi::Absent,
            },
            entrance: match route.entrance {
                Entrance::Service => WrittenEntrance::Service,
                Entrance::Component => WrittenEntrance::Component,
            },
        }
    }

    /// Reads the route of this service, whose object was created at `since`, in seconds since 1970.
    ///
    /// # Errors
    /// [`ClusterError`] when a name is invalid, the split is impossible, or the route leads to another service's
    /// revision.
    pub(crate) fn route(self, service: &ServiceName, since: u64) -> Result<Route, ClusterError> {
        let route = self.read(service, since)?;
        let mut revisions = route.revisions();
        if let Some(name) = revisions.find(|name| name.service() != service) {
            let because = format!("its route leads to {name}, which is no revision of it");
            return Err(ClusterError::refused(service, because));
        }
        drop(revisions);
        Ok(route)
    }

    fn read(self, service: &ServiceName, since: u64) -> Result<Route, ClusterError> {
        let tags = self.tags.iter().map(|tag| tag.read(service));
        Ok(Route {
            since,
            hosts: hosts(&self.hosts)?,
            refused_hosts: Vec::new(),
            model: self.model.map(Into::into),
            destination: self.destination.read(service)?,
            tags: tags.collect::<Result<_, _>>()?,
            timeout: self.timeout.map(read_time),
            activation_timeout: read_time(self.activation_timeout),
            max_queue: self.max_queue,
            batching: self
                .batching
                .map(|batching| Batching { max_size: batching.max_size, max_latency: read_time(batching.max_latency) }),
            mirror: self.mirror.map(|mirror| mirror.read(service)).transpose()?,
            control: match self.control {
                WrittenControl::Closed => ControlRoutes::Closed,
                WrittenControl::Open => ControlRoutes::Open,
            },
            access: access(self.access),
            openai: match self.openai {
                WrittenOpenAi::Undeclared => OpenAiApi::Undeclared,
                WrittenOpenAi::Supported => OpenAiApi::Supported,
                WrittenOpenAi::Absent => OpenAiApi::Absent,
            },
            entrance: match self.entrance {
                WrittenEntrance::Service => Entrance::Service,
                WrittenEntrance::Component => Entrance::Component,
            },
            service: service.clone(),
        })
    }
}

impl WrittenDestination {
    fn read(self, service: &ServiceName) -> Result<Destination, ClusterError> {
        let shares = match self {
            Self::Split(shares) => shares,
            Self::Nowhere(because) => return Ok(Destination::Nowhere(because.into())),
        };
        let target = |share: &WrittenShare| {
            Ok(Target { revision: RevisionName::parse(service.namespace(), &share.revision)?, weight: share.share })
        };
        let targets: Result<Vec<_>, ClusterError> = shares.iter().map(target).collect();
        Ok(Destination::Split(Split::new(targets?)?))
    }
}

impl WrittenShare {
    fn read(&self, service: &ServiceName) -> Result<Mirror, ClusterError> {
        let percent = u8::try_from(self.share)
            .map_err(|_| ClusterError::refused(service, format!("cannot mirror {} % of requests", self.share)));
        Ok(Mirror { revision: RevisionName::parse(service.namespace(), &self.revision)?, percent: percent? })
    }
}

impl WrittenTag {
    fn read(&self, service: &ServiceName) -> Result<Tagged, ClusterError> {
        Ok(Tagged {
            tag: Tag::new(&self.tag)?,
            hosts: hosts(&self.hosts)?,
            revision: RevisionName::parse(service.namespace(), &self.revision)?,
        })
    }
}

/// Reads the rules of a service. Rules only allow, so one that is invalid, or that a newer version wrote with other
/// fields, is left out and allows nothing.
fn access(written: Vec<serde_json::Value>) -> ServiceRules {
    let rules = written.into_iter().filter_map(|rule| serde_json::from_value::<Rule>(rule).ok());
    let valid = rules.filter(|rule| rule.check_of_service().is_ok());
    ServiceRules::new(valid.collect()).unwrap_or_default()
}

fn tag(tagged: &Tagged) -> WrittenTag {
    WrittenTag {
        tag: tagged.tag.to_string(),
        hosts: texts(&tagged.hosts),
        revision: tagged.revision.as_str().to_owned(),
    }
}

fn share(target: &Target) -> WrittenShare {
    WrittenShare { revision: target.revision.as_str().to_owned(), share: target.weight }
}

fn texts(hosts: &[Host]) -> Vec<String> {
    hosts.iter().map(Host::to_string).collect()
}

fn hosts(texts: &[String]) -> Result<Vec<Host>, ClusterError> {
    texts.iter().map(|text| Host::parse(text)).collect()
}
