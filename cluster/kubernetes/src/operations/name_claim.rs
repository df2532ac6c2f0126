//! Resolves which of two services owns an object whose name both want. Pure.

use weir_cluster::{ClusterError, RevisionName, ServiceName};

use crate::view::drift::{Existing, Kind, ObjectState, Role};

/// Right of a service to use a Kubernetes Service whose name another service may want too.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NameClaim {
    /// The object belongs to the service, or the service may create or take it.
    Own,
    /// The object is another service's and also leads to the gateway, so it is left unchanged.
    Left(ObjectState),
}

/// Returns the right of a service to the Kubernetes Service of this name. A service's own name takes precedence over
/// the alias of another service, because the route is stored under it.
///
/// # Errors
/// [`ClusterError::Refused`] when neither service can work without the name.
pub(crate) fn claim_name(service: &ServiceName, name: &str, existing: &Existing) -> Result<NameClaim, ClusterError> {
    let Some(there) = existing.get(Kind::Service, name) else {
        return Ok(NameClaim::Own);
    };
    let revision = RevisionName::parse(service.namespace(), name).ok();
    let is_own_revision = revision.as_ref().is_some_and(|r| r.service() == service);
    match there.role {
        Role::Alias | Role::Revision | Role::HalfMade => Ok(NameClaim::Own),
        Role::OthersAlias if name == service.name() => Ok(NameClaim::Own),
        // The route of a component is stored under the component's name.
        Role::OthersAlias if name != service.full_name() && !is_own_revision => Ok(NameClaim::Left(there.clone())),
        Role::OthersAlias | Role::OthersRevision => {
            let other = revision.filter(|_| !is_own_revision);
            let other = other.map_or(name.to_owned(), |r| r.service().name().to_owned());
            let because = format!("the Service {name:?} is that of the InferenceService {other:?}: rename one of them");
            Err(ClusterError::refused(service, because))
        }
    }
}
