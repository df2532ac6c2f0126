//! Limits of clients, as written in an access file.

use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pattern;
use crate::pattern::ServiceId;
use crate::rate::{Rate, Unit};
use crate::rule::is_service_pattern;

/// Maximum number of limits in all access files together: a request may be compared with all of them.
pub(crate) const MAX_LIMITS: usize = 256;

/// Limits of clients. Each matching client is limited separately, over all gateways together. With `services`, it is
/// also limited separately at each of these services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientLimits {
    /// Names of clients. A final `*` stands for any text. The first limits that match a client are its own.
    pub clients: Vec<String>,
    /// Services as `NAMESPACE/NAME`, each with an optional final `*`, or `*` for all. Each of them counts by itself;
    /// without the field all services count together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// Requests per minute; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<NonZeroU32>,
    /// Requests that may arrive at once after a pause; the default is a sixth of a minute's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<NonZeroU32>,
    /// Bytes of bodies of requests and responses per minute; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_minute: Option<NonZeroU64>,
    /// Tokens of language models per minute, as the `usage` of responses counts them; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<NonZeroU64>,
    /// Requests in flight at once, from their arrival to the end of their responses; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroU32>,
    /// Weight of the client: its part of the replicas and of a full queue, relative to other clients; the default is 1.
    /// It cannot be set for single services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<NonZeroU16>,
}

impl ClientLimits {
    /// Returns true for limits of this client.
    pub(crate) fn names(&self, client: &str) -> bool {
        self.clients.iter().any(|pattern| pattern::matches(pattern, client))
    }

    /// Returns true if the limits name clients, by valid patterns.
    pub(crate) fn has_valid_clients(&self) -> bool {
        !self.clients.is_empty() && self.clients.iter().all(|name| pattern::is_valid(name))
    }

    /// Returns true if the limits count each service separately.
    pub(crate) fn is_per_service(&self) -> bool {
        !self.services.is_empty()
    }

    /// Returns true if the limits count the requests to this service separately.
    pub(crate) fn covers(&self, service: ServiceId<'_>) -> bool {
        self.services.iter().any(|pattern| service.matches(pattern))
    }

    /// Returns the position of the first service that is not a valid pattern.
    pub(crate) fn invalid_service(&self) -> Option<usize> {
        self.services.iter().position(|pattern| !is_service_pattern(pattern))
    }

    /// Returns the limit of a unit per time; `None` without one.
    #[must_use]
    pub fn rate(&self, unit: Unit) -> Option<Rate> {
        match unit {
            Unit::Requests => Some(Rate::new(self.requests_per_minute?.into(), self.burst.map(NonZeroU64::from))),
            Unit::Bytes => Some(Rate::new(self.bytes_per_minute?, None)),
            Unit::Tokens => Some(Rate::new(self.tokens_per_minute?, None)),
        }
    }
}
