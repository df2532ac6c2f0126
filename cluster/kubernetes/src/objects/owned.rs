//! Service and revision that an object belongs to, by its labels and its owner.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use weir_cluster::{ClusterError, ComponentKind, RevisionName, ServiceName};

use super::{COMPONENT, MANAGED_BY, REVISION, SERVICE, WEIR};

/// API group of InferenceServices.
pub(crate) const GROUP: &str = "serving.kserve.io";
/// Kind of the object that owns the objects of a service.
pub(crate) const OWNER_KIND: &str = "InferenceService";

/// Returns the selector of all objects of a component. A predictor's objects have no label with the component.
pub(crate) fn selector(service: &ServiceName) -> String {
    let of_component = match service.component() {
        ComponentKind::Predictor => {
            let others = ComponentKind::ALL.iter().filter(|other| **other != ComponentKind::Predictor);
            let others: Vec<_> = others.map(|other| other.as_str()).collect();
            format!("{COMPONENT} notin ({})", others.join(","))
        }
        other @ (ComponentKind::Transformer | ComponentKind::Explainer) => format!("{COMPONENT}={other}"),
    };
    format!("{MANAGED_BY}={WEIR},{SERVICE}={},{of_component}", service.name())
}

/// Returns the revision that an object's label names.
#[must_use]
pub fn revision_of(object: &impl Resource) -> Option<RevisionName> {
    let name = object.labels().get(REVISION)?;
    RevisionName::parse(&object.namespace()?, name).ok()
}

/// Returns the revision of an object that has the revision's own name. An object of another name with that label is not
/// Weir's.
pub(crate) fn named_revision_of(object: &impl Resource) -> Option<RevisionName> {
    revision_of(object).filter(|revision| revision.as_str() == object.name_any())
}

/// Returns the creation time of an object in seconds since 1970. Only the API server can write it.
pub(crate) fn created(object: &impl Resource) -> u64 {
    let created = object.meta().creation_timestamp.as_ref();
    created.map_or(0, |time| u64::try_from(time.0.as_second()).unwrap_or(0))
}

/// Returns the component of a service that an object's labels name.
pub(crate) fn service_of(object: &impl Resource) -> Option<ServiceName> {
    let labels = object.labels();
    let component = labels.get(COMPONENT).and_then(|component| ComponentKind::named(component)).unwrap_or_default();
    ServiceName::new(&object.namespace()?, labels.get(SERVICE)?).ok()?.of_component(component).ok()
}

/// Returns the services that an object may belong to by its name, whatever its labels say.
pub(crate) fn may_be_of(object: &impl Resource) -> impl Iterator<Item = ServiceName> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let of_revision = RevisionName::parse(&namespace, &name).ok();
    let of_revision = of_revision.map(|revision| revision.service().clone());
    let alias = ServiceName::new(&namespace, &name).ok();
    let of_component = name.rsplit_once('-').and_then(|(name, component)| {
        let component = ComponentKind::named(component)?;
        ServiceName::new(&namespace, name).ok()?.of_component(component).ok()
    });
    of_revision.into_iter().chain(alias).chain(of_component)
}

/// Refuses to overwrite an object of another owner. An object without Weir's label is still Weir's if the
/// InferenceService controls it: then the label was removed by hand.
///
/// # Errors
/// [`ClusterError::Refused`] when the object is not Weir's.
pub(crate) fn check_owner<K: Resource<DynamicType = ()>>(
    existing: &K,
    service: &ServiceName,
) -> Result<(), ClusterError> {
    let is_labelled = existing.labels().get(MANAGED_BY).map(String::as_str) == Some(WEIR);
    let mut owners = existing.owner_references().iter();
    let is_controlled = owners
        .any(|owner| owner.controller == Some(true) && is_inference_service(owner) && owner.name == service.name());
    if is_labelled || is_controlled {
        return Ok(());
    }
    let mut owners = existing.owner_references().iter();
    let theirs = owners.find(|owner| owner.controller == Some(true));
    let theirs = theirs.map(|owner| format!(" but of the {} {:?}", owner.kind, owner.name));
    let because = format!(
        "the {} {:?} is not Weir's{}: rename or delete {}",
        K::kind(&()),
        existing.name_any(),
        theirs.as_deref().unwrap_or_default(),
        theirs.as_ref().map_or("it", |_| "that"),
    );
    Err(ClusterError::refused(service, because))
}

/// Returns true if a reference names an InferenceService, whatever its UID and API version.
pub(crate) fn is_inference_service(reference: &OwnerReference) -> bool {
    let group = reference.api_version.split('/').next();
    group == Some(GROUP) && reference.kind == OWNER_KIND
}
