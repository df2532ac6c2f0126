//! Whose an object is.

use kube::{Resource, ResourceExt};
use weir_cluster::{ClusterError, RevisionName, ServiceName, Workload};

use super::deployment::IDENTITY;
use super::{MANAGED_BY, REVISION, SERVICE, WEIR};

/// The selector of all objects of a service.
pub(crate) fn selector(service: &ServiceName) -> String {
    format!("{MANAGED_BY}={WEIR},{SERVICE}={}", service.name())
}

/// The revision that an object is of.
pub(crate) fn revision_of(object: &impl Resource) -> Option<RevisionName> {
    let name = object.labels().get(REVISION)?;
    RevisionName::parse(&object.namespace()?, name).ok()
}

/// The service that an object is of.
pub(crate) fn service_of(object: &impl Resource) -> Option<ServiceName> {
    let name = object.labels().get(SERVICE)?;
    ServiceName::new(&object.namespace()?, name).ok()
}

/// Refuses to write over an object of another owner, or of a revision that was another.
///
/// # Errors
/// [`ClusterError::Refused`].
pub(crate) fn check_owner<K: Resource<DynamicType = ()>>(
    existing: &K,
    subject: &impl ToString,
    workload: Option<&Workload>,
) -> Result<(), ClusterError> {
    if existing.labels().get(MANAGED_BY).map(String::as_str) != Some(WEIR) {
        let because = format!(
            "the {} {:?} is not Weir's: rename or delete it",
            K::kind(&()),
            existing.name_any()
        );
        return Err(ClusterError::refused(subject.to_string(), because));
    }
    let identity = existing.annotations().get(IDENTITY);
    match workload.zip(identity) {
        Some((workload, identity)) if *identity != workload.identity().as_str() => {
            let because = "a revision that exists cannot become another one";
            Err(ClusterError::refused(subject.to_string(), because))
        }
        Some(_) | None => Ok(()),
    }
}
