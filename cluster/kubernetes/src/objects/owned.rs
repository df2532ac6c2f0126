//! Whose an object is.

use kube::{Resource, ResourceExt};
use weir_cluster::{ClusterError, RevisionName, ServiceName};

use super::{MANAGED_BY, REVISION, SERVICE, WEIR};

/// The selector of all objects of a service.
pub(crate) fn selector(service: &ServiceName) -> String {
    format!("{MANAGED_BY}={WEIR},{SERVICE}={}", service.name())
}

/// The revision that an object is of, by its label.
#[must_use]
pub fn revision_of(object: &impl Resource) -> Option<RevisionName> {
    let name = object.labels().get(REVISION)?;
    RevisionName::parse(&object.namespace()?, name).ok()
}

/// The service that an object is of.
pub(crate) fn service_of(object: &impl Resource) -> Option<ServiceName> {
    let name = object.labels().get(SERVICE)?;
    ServiceName::new(&object.namespace()?, name).ok()
}

/// Refuses to write over an object of another owner.
///
/// # Errors
/// [`ClusterError::Refused`].
pub(crate) fn check_owner<K: Resource<DynamicType = ()>>(
    existing: &K,
    subject: &impl ToString,
) -> Result<(), ClusterError> {
    if existing.labels().get(MANAGED_BY).map(String::as_str) == Some(WEIR) {
        return Ok(());
    }
    let because = format!(
        "the {} {:?} is not Weir's: rename or delete it",
        K::kind(&()),
        existing.name_any()
    );
    Err(ClusterError::refused(subject.to_string(), because))
}
