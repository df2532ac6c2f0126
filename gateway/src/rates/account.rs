//! The requests that a limit counts together.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_access::{ClientLimits, Policy, ServiceId};
use weir_cluster::ServiceName;

/// Requests that a limit counts together: those of a client to one service, or to all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    client: Arc<str>,
    /// Service whose requests count by themselves; `None` for all services together.
    service: Option<ServiceName>,
}

/// Limits of a request, each with the account that counts it.
pub(crate) type AccountLimits<'a> = SmallVec<[(Account, &'a ClientLimits); 2]>;

/// Returns the limits of a client's request to a service: those for all services together, and those for this one.
pub(crate) fn limits_of<'a>(policy: &'a Policy, client: &Arc<str>, service: &ServiceName) -> AccountLimits<'a> {
    if policy.limits.is_empty() {
        return AccountLimits::new();
    }
    let account = |service| Account { client: Arc::clone(client), service };
    let all = policy.limits_of(client).map(|limits| (account(None), limits));
    let id = ServiceId { namespace: service.namespace(), name: service.name() };
    let own = policy.limits_at(client, id).map(|limits| (account(Some(service.whole())), limits));
    all.into_iter().chain(own).collect()
}

#[cfg(test)]
impl Account {
    /// Returns the account of a client's requests to all services.
    pub(crate) fn of(client: &str) -> Self {
        Self { client: client.into(), service: None }
    }
}
