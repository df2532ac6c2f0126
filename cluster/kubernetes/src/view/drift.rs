//! Objects of services at their newest known versions, and drift: what others change or delete of the objects that
//! `apply` wrote. Pure.
//!
//! Versions come from the watches and from the answers to writes; the newer one counts. Only the fields that the
//! controller has applied are compared. Numbers of replicas, statuses and other managers' annotations are ignored.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use weir_cluster::ServiceName;

use crate::objects::{AUTOSCALER, CONTROLLER, may_be_of, revision_of, service_of};
use crate::view::generation;
use crate::view::held::held;

/// Kind of object that `apply` makes for a service.
pub(crate) trait ManagedObject: Resource<DynamicType = ()> + Serialize {
    /// Kind of the object, as a value.
    const KIND: Kind;
}

/// Kind of an object that `apply` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Deployment with a revision's pods.
    Deployment,
    /// Service with a revision's addresses, or an alias of a service.
    Service,
}

impl ManagedObject for Deployment {
    const KIND: Kind = Kind::Deployment;
}

impl ManagedObject for Service {
    const KIND: Kind = Kind::Service;
}

/// Version and applied fields of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObjectState {
    /// Resource version of the object.
    pub(crate) version: u64,
    /// Digest of the fields that the controller has applied.
    pub(crate) applied_digest: u64,
    /// Role of the object for its service.
    pub(crate) role: Role,
    /// UID, which distinguishes the object from a later one of the same name.
    pub(crate) uid: Box<str>,
}

/// Role of an object for a service that owns it or wants its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Alias: a Service that leads to the service, whatever its revisions.
    Alias,
    /// Object of one of the service's revisions.
    Revision,
    /// Object of a revision whose creation was interrupted: the autoscaler's manager still owns more fields than the
    /// number of replicas.
    HalfMade,
    /// Alias of another service.
    OthersAlias,
    /// Object of another service's revision.
    OthersRevision,
}

/// Existing objects of a service by kind and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Existing(Objects<ObjectState>);

/// Objects of a service that `apply` wrote last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WrittenObjects(Objects<Written>);

/// Fixed digest for other services' objects: only their deletion counts as drift, because it frees a name.
const OTHERS: u64 = 0;

/// Objects by kind and name. They are few, and a list needs the least memory.
type Objects<T> = Vec<(Kind, Box<str>, T)>;

/// Version and digest of an object after it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Written {
    version: u64,
    applied_digest: u64,
}

/// Newest known state of an object.
#[derive(Clone, Debug)]
enum LatestState {
    There(ObjectState),
    /// The object was deleted at this version.
    Gone(u64),
}

/// Known state of the objects of all services.
#[derive(Debug, Default)]
pub(crate) struct Drift {
    services: BTreeMap<ServiceName, Known>,
    drifted: BTreeSet<ServiceName>,
}

/// Known state of the objects of one service.
#[derive(Debug, Default)]
struct Known {
    written: Objects<Written>,
    seen: Objects<LatestState>,
    writing: Writing,
}

/// Progress of a write of a service's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Writing {
    #[default]
    None,
    /// Objects are being written. An object deleted meanwhile may be among them, so its deletion is remembered.
    UnderWay,
}

impl ObjectState {
    fn of<K: ManagedObject>(object: &K, service: &ServiceName) -> Self {
        let role = role(object, service);
        let applied_digest = match role {
            Role::Alias | Role::Revision | Role::HalfMade => held(object, CONTROLLER),
            Role::OthersAlias | Role::OthersRevision => OTHERS,
        };
        Self { version: generation(object), applied_digest, role, uid: object.uid().unwrap_or_default().into() }
    }
}

impl Existing {
    /// Returns the object of this kind and name.
    pub(crate) fn get(&self, kind: Kind, name: &str) -> Option<&ObjectState> {
        get(&self.0, kind, name)
    }

    /// Returns the names of the objects of one kind that belong to revisions.
    pub(crate) fn of_revisions(&self, kind: Kind) -> impl Iterator<Item = &str> {
        let of_kind = self
            .0
            .iter()
            .filter(move |(of, _, state)| *of == kind && matches!(state.role, Role::Revision | Role::HalfMade));
        of_kind.map(|(_, name, _)| &**name)
    }
}

impl WrittenObjects {
    /// Adds an object as the API server stores it.
    pub(crate) fn add(&mut self, kind: Kind, name: &str, state: &ObjectState) {
        let written = Written { version: state.version, applied_digest: state.applied_digest };
        put(&mut self.0, kind, name, written);
    }
}

impl Drift {
    /// Records the objects written for a service and ends the write; `objects` is `None` if the service was forgotten.
    pub(crate) fn wrote(&mut self, service: &ServiceName, objects: Option<WrittenObjects>) {
        let known = self.services.entry(service.clone()).or_default();
        known.written = objects.unwrap_or_default().0;
        known.writing = Writing::None;
        self.update_drifted(service);
    }

    /// Records an object's present state, as a watch shows it.
    pub(crate) fn see<K: ManagedObject>(&mut self, object: &K) {
        for service in self.affected_services(object) {
            self.record(&service, object);
            self.update_drifted(&service);
        }
    }

    /// Records an object as the API server returned it after a write, and returns the object's state. The service's
    /// drift is judged when the write ends.
    pub(crate) fn note<K: ManagedObject>(&mut self, service: &ServiceName, object: &K) -> ObjectState {
        for other in self.affected_services(object) {
            if other != *service {
                self.record(&other, object);
                self.update_drifted(&other);
            }
        }
        self.record(service, object)
    }

    /// Records that an object was deleted; `object` is its last state.
    pub(crate) fn miss<K: ManagedObject>(&mut self, object: &K) {
        for service in self.affected_services(object) {
            let gone = LatestState::Gone(generation(object));
            let known = self.services.entry(service.clone()).or_default();
            known.see(K::KIND, &object.name_any(), gone);
            self.update_drifted(&service);
        }
    }

    /// Returns the services whose objects differ from what was applied.
    pub(crate) fn services(&self) -> &BTreeSet<ServiceName> {
        &self.drifted
    }

    /// Records that a write of a service begins; [`Self::wrote`] ends it.
    pub(crate) fn begin(&mut self, service: &ServiceName) {
        let known = self.services.entry(service.clone()).or_default();
        known.writing = Writing::UnderWay;
    }

    /// Returns the known existing objects of a service.
    pub(crate) fn existing(&self, service: &ServiceName) -> Existing {
        let known = self.services.get(service);
        let seen = known.into_iter().flat_map(|known| &known.seen);
        let there = seen.filter_map(|(kind, name, seen)| match seen {
            LatestState::There(state) => Some((*kind, name.clone(), state.clone())),
            LatestState::Gone(_) => None,
        });
        Existing(there.collect())
    }

    /// Returns the services to which an object matters: the one that its label names, and the known ones that make an
    /// object of its name. A label can be removed, and two services can want the same name.
    fn affected_services<K: ManagedObject>(&self, object: &K) -> BTreeSet<ServiceName> {
        let named = may_be_of(object).filter(|service| self.services.contains_key(service));
        named.chain(service_of(object)).collect()
    }

    fn record<K: ManagedObject>(&mut self, service: &ServiceName, object: &K) -> ObjectState {
        let state = ObjectState::of(object, service);
        let known = self.services.entry(service.clone()).or_default();
        known.see(K::KIND, &object.name_any(), LatestState::There(state.clone()));
        state
    }

    fn update_drifted(&mut self, service: &ServiceName) {
        let Some(known) = self.services.get_mut(service) else {
            return;
        };
        if known.writing == Writing::None {
            known.forget_gone();
        }
        if known.is_drifted() {
            self.drifted.insert(service.clone());
        } else {
            self.drifted.remove(service);
        }
        if known.is_empty() {
            self.services.remove(service);
        }
    }
}

impl Known {
    /// Records an object's newest state. API responses and watch events may arrive in any order.
    fn see(&mut self, kind: Kind, name: &str, seen: LatestState) {
        let before = get(&self.seen, kind, name);
        if before.is_none_or(|before| before.version() <= seen.version()) {
            put(&mut self.seen, kind, name, seen);
        }
    }

    /// Forgets deleted objects, except those that were written and are now missing.
    fn forget_gone(&mut self) {
        let written = &self.written;
        self.seen.retain(|(kind, name, seen)| match seen {
            LatestState::There(_) => true,
            LatestState::Gone(_) => get(written, *kind, name).is_some(),
        });
    }

    fn is_empty(&self) -> bool {
        self.writing == Writing::None && self.written.is_empty() && self.seen.is_empty()
    }

    fn is_drifted(&self) -> bool {
        self.written
            .iter()
            .any(|(kind, name, written)| get(&self.seen, *kind, name).is_some_and(|seen| seen.differs(*written)))
    }
}

impl LatestState {
    fn version(&self) -> u64 {
        match self {
            Self::There(state) => state.version,
            Self::Gone(version) => *version,
        }
    }

    /// Returns true if the object differs from what was written; states older than the write do not count.
    fn differs(&self, written: Written) -> bool {
        let is_other = match self {
            Self::There(state) => state.applied_digest != written.applied_digest,
            Self::Gone(_) => true,
        };
        is_other && self.version() >= written.version
    }
}

fn get<'a, T>(objects: &'a Objects<T>, kind: Kind, name: &str) -> Option<&'a T> {
    let mut objects = objects.iter();
    let found = objects.find(|(of, named, _)| *of == kind && **named == *name);
    found.map(|(_, _, object)| object)
}

fn put<T>(objects: &mut Objects<T>, kind: Kind, name: &str, object: T) {
    objects.retain(|(of, named, _)| *of != kind || **named != *name);
    objects.reserve_exact(1);
    objects.push((kind, name.into(), object));
}

fn role<K: ManagedObject>(object: &K, service: &ServiceName) -> Role {
    let is_others = service_of(object).is_some_and(|owner| owner != *service);
    match revision_of(object) {
        None if is_others => return Role::OthersAlias,
        None => return Role::Alias,
        Some(_) if is_others => return Role::OthersRevision,
        Some(_) => {}
    }
    let mut entries = object.managed_fields().iter();
    let is_half_made = entries.any(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0["f:spec"]);
        entry.manager.as_deref() == Some(AUTOSCALER) && fields.is_some_and(|fields| fields.get("f:template").is_some())
    });
    if is_half_made { Role::HalfMade } else { Role::Revision }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(version: u64, app: &str) -> Service {
        let value = json!({
            "metadata": {
                "name": "digits", "namespace": "team", "resourceVersion": version.to_string(),
                "labels": {"serving.kserve.io/inferenceservice": "digits", "app": app},
                "annotations": {(format!("v{version}")): "theirs"},
                "managedFields": [
                    {"manager": "weir-controller", "operation": "Apply",
                        "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}}},
                    {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:annotations": {}}}},
                ],
            },
        });
        serde_json::from_value(value).unwrap()
    }

    fn written(state: &ObjectState) -> WrittenObjects {
        let mut written = WrittenObjects::default();
        written.add(Kind::Service, "digits", state);
        written
    }

    fn drift() -> (Drift, ServiceName) {
        let service = ServiceName::new("team", "digits").unwrap();
        let mut drift = Drift::default();
        drift.see(&object(3, "other"));
        let state = ObjectState::of(&object(5, "ours"), &service);
        drift.wrote(&service, Some(written(&state)));
        (drift, service)
    }

    #[test]
    fn only_changes_to_applied_fields_count_as_drift() {
        let (mut drift, service) = drift();
        assert!(drift.services().is_empty(), "an older state does not count");
        drift.see(&object(5, "ours"));
        drift.see(&object(6, "ours"));
        assert!(drift.services().is_empty(), "fields that others add do not count");
        drift.see(&object(7, "changed"));
        assert!(drift.services().contains(&service));
        let again = drift.note(&service, &object(8, "ours"));
        drift.wrote(&service, Some(written(&again)));
        assert!(drift.services().is_empty(), "it was put back");
    }

    #[test]
    fn a_deleted_object_counts_as_drift_until_its_service_is_forgotten() {
        let (mut drift, service) = drift();
        drift.miss(&object(9, "ours"));
        assert!(drift.services().contains(&service));
        assert!(drift.existing(&service).get(Kind::Service, "digits").is_none());
        drift.wrote(&service, None);
        assert!(drift.services().is_empty());
        drift.miss(&object(11, "ours"));
        assert!(drift.services.is_empty(), "nothing is kept of what is gone");
    }

    #[test]
    fn an_object_deleted_during_the_write_counts_as_drift() {
        let (mut drift, service) = (Drift::default(), ServiceName::new("team", "digits").unwrap());
        drift.begin(&service);
        let state = drift.note(&service, &object(5, "ours"));
        drift.miss(&object(6, "ours"));
        drift.wrote(&service, Some(written(&state)));
        assert!(drift.services().contains(&service));
    }

    #[test]
    fn removing_the_service_label_counts_as_drift() {
        let (mut drift, service) = drift();
        let mut stripped = object(7, "ours");
        stripped.metadata.labels = None;
        drift.see(&stripped);
        assert!(drift.services().contains(&service));
    }

    #[test]
    fn deleting_the_other_services_object_frees_the_name() {
        let mut drift = Drift::default();
        let service = ServiceName::new("team", "digits").unwrap();
        let alias = |version, of: &str| {
            let mut alias = object(version, "ours");
            alias.metadata.name = Some("digits-predictor".to_owned());
            let label = "serving.kserve.io/inferenceservice".to_owned();
            alias.metadata.labels = Some([(label, of.to_owned())].into());
            alias
        };
        let wrote = |state: &ObjectState| {
            let mut written = WrittenObjects::default();
            written.add(Kind::Service, "digits-predictor", state);
            written
        };
        let own = drift.note(&service, &alias(5, "digits"));
        assert_eq!(own.role, Role::Alias);
        drift.wrote(&service, Some(wrote(&own)));
        drift.see(&alias(6, "digits-predictor"));
        assert!(drift.services().contains(&service), "it was taken over");
        let others = drift.existing(&service);
        let others = others.get(Kind::Service, "digits-predictor").unwrap();
        assert_eq!(others.role, Role::OthersAlias);
        drift.wrote(&service, Some(wrote(others)));
        drift.see(&alias(7, "digits-predictor"));
        assert!(drift.services().is_empty(), "changes to another service's object do not count");
        drift.miss(&alias(8, "digits-predictor"));
        assert!(drift.services().contains(&service), "its name is free");
    }

    #[test]
    fn answers_and_watch_events_may_arrive_in_any_order() {
        let (mut drift, service) = drift();
        let newest = drift.note(&service, &object(8, "ours"));
        drift.see(&object(7, "older"));
        let existing = drift.existing(&service);
        assert_eq!(existing.get(Kind::Service, "digits"), Some(&newest));
        drift.miss(&object(9, "ours"));
        drift.note(&service, &object(8, "ours"));
        assert!(drift.existing(&service).get(Kind::Service, "digits").is_none());
    }
}
