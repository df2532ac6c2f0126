//! Objects that the watches have shown, and the declaration that follows from them. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::DynamicObject;
use kube::runtime::watcher::Event;
use weir_cluster::ServiceName;
use weir_cluster_kubernetes::{Edit, WatchCache};
use weir_controller::{Declaration, DeclaredService, Platform, Runtimes};
use weir_crds::StorageContainer;

use crate::object::WatchedService;
use crate::orphans::Orphans;
use crate::runtime::{Kind, WatchedRuntime};
use crate::statuses::{Statuses, WatchedStatus};

/// Event of one of the watches.
#[derive(Debug)]
pub(crate) enum Change {
    /// Event of an InferenceService.
    Service(Event<DynamicObject>),
    /// Event of a runtime of this kind.
    Runtime(Kind, Event<DynamicObject>),
    /// Event of a ClusterStorageContainer.
    StorageContainer(Event<DynamicObject>),
    /// ClusterStorageContainers cannot be watched, for example because their CustomResourceDefinition is not installed.
    NoStorageContainers,
}

/// Objects that the watches have shown.
#[derive(Debug)]
pub(crate) struct Objects {
    platform: Platform,
    services: WatchCache<WatchedService>,
    runtimes: WatchCache<WatchedRuntime>,
    cluster_runtimes: WatchCache<WatchedRuntime>,
    storage_containers: WatchCache<StorageContainer>,
    /// Statuses that changed since they were last published; None for a deleted service.
    unpublished: BTreeMap<ServiceName, Option<WatchedStatus>>,
    /// Services deleted since the last publication whose objects are to stay.
    orphans: Orphans,
    /// True if the last declaration is out of date. Most events only concern statuses.
    is_outdated: bool,
    /// Last declaration, in which each service has its last valid form.
    last: Declaration,
}

impl Objects {
    pub(crate) fn new(platform: Platform) -> Self {
        Self {
            platform,
            services: WatchCache::default(),
            runtimes: WatchCache::default(),
            cluster_runtimes: WatchCache::default(),
            storage_containers: WatchCache::default(),
            unpublished: BTreeMap::new(),
            orphans: Orphans::default(),
            is_outdated: true,
            last: Declaration::default(),
        }
    }

    /// Applies an event of a watch.
    pub(crate) fn take(&mut self, change: Change) {
        match change {
            Change::Service(event) => {
                if let Event::Apply(object) | Event::InitApply(object) = &event {
                    self.orphans.see(object);
                }
                let ends_list = matches!(event, Event::InitDone);
                let edits = self.services.take(event, WatchedService::read);
                self.is_outdated |= ends_list || edits.iter().any(is_of_declaration);
                for edit in edits {
                    self.note_status(edit);
                }
            }
            Change::Runtime(kind, event) => {
                let runtimes = match kind {
                    Kind::ServingRuntime => &mut self.runtimes,
                    Kind::ClusterServingRuntime => &mut self.cluster_runtimes,
                };
                runtimes.take(event, |object, before| kind.read(object, before));
                self.is_outdated = true;
            }
            Change::StorageContainer(event) => {
                self.storage_containers
                    .take(event, |object, _| StorageContainer::read(object.metadata.name.as_deref()?, &object.data));
                self.is_outdated = true;
            }
            Change::NoStorageContainers => {
                // A list that begins and ends without an object empties the cache.
                self.storage_containers.take(Event::<DynamicObject>::Init, |_, _| None);
                self.storage_containers.take(Event::<DynamicObject>::InitDone, |_, _| None);
                self.is_outdated = true;
            }
        }
    }

    /// Returns the declaration once everything that existed at the start is known; None if it has not changed.
    pub(crate) fn declaration(&mut self) -> Option<Declaration> {
        if !self.is_complete() || !std::mem::take(&mut self.is_outdated) {
            return None;
        }
        let services = self.services.values().map(|seen| {
            let service = seen.service.clone();
            (service.name.clone(), service)
        });
        let runtimes = self.all_runtimes().filter_map(|seen| seen.runtime.clone());
        let containers = self.storage_containers.values().cloned().collect();
        let runtimes = Runtimes::declared(runtimes.collect()).with_storage_containers(containers);
        let last = &self.last;
        self.last = Declaration::new(services.collect(), runtimes, last, &self.platform);
        Some(self.with_errors())
    }

    /// Moves the changed statuses into the statuses of all services.
    pub(crate) fn publish_statuses(&mut self, statuses: &mut Statuses) {
        for (service, status) in std::mem::take(&mut self.unpublished) {
            statuses.see(service, status);
        }
    }

    /// Moves the new orphaned services into the known ones.
    pub(crate) fn publish_orphans(&mut self, orphans: &mut Orphans) {
        orphans.extend(&mut self.orphans);
    }

    fn is_complete(&self) -> bool {
        let of_runtimes = self.runtimes.is_complete() && self.cluster_runtimes.is_complete();
        self.services.is_complete() && of_runtimes && self.storage_containers.is_complete()
    }

    fn note_status(&mut self, edit: Edit<WatchedService>) {
        let Some(name) = edit.values().next().map(|seen| seen.service.name.clone()) else {
            return;
        };
        let status = edit.after.map(|after| after.status);
        self.unpublished.insert(name, status);
    }

    fn all_runtimes(&self) -> impl Iterator<Item = &WatchedRuntime> {
        self.runtimes.values().chain(self.cluster_runtimes.values())
    }

    /// Returns the last declaration with the errors of objects that are invalid now.
    fn with_errors(&self) -> Declaration {
        let mut declaration = self.last.clone();
        for seen in self.services.values() {
            if let Some(errors) = &seen.errors {
                let declared =
                    DeclaredService { service: seen.service.clone(), validation: Err(errors.clone()), kept: None };
                declaration.services.insert(seen.service.name.clone(), declared);
            }
        }
        let problems = self.all_runtimes().filter_map(|seen| seen.problem.clone());
        declaration.problems = problems.collect();
        declaration
    }
}

/// Returns true if an edit changes the declaration, and not only a status.
fn is_of_declaration(edit: &Edit<WatchedService>) -> bool {
    match (&edit.before, &edit.after) {
        (Some(before), Some(after)) => !Arc::ptr_eq(&before.service, &after.service) || before.errors != after.errors,
        (Some(_), None) | (None, Some(_)) => true,
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns objects of which all that existed at the start is known, except for the storage containers.
    fn listed() -> Objects {
        let mut objects = Objects::new(Platform::new("example.com"));
        for change in [
            Change::Service(Event::InitDone),
            Change::Runtime(Kind::ServingRuntime, Event::InitDone),
            Change::Runtime(Kind::ClusterServingRuntime, Event::InitDone),
        ] {
            objects.take(change);
        }
        objects
    }

    fn container() -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterStorageContainer",
            "metadata": {"name": "hadoop"},
            "spec": {"container": {"name": "a", "image": "b"}, "supportedUriFormats": [{"prefix": "hdfs://"}]},
        }))
        .unwrap()
    }

    fn names(declaration: &Declaration) -> Vec<&str> {
        declaration.runtimes.storage_containers().iter().map(|container| &*container.name).collect()
    }

    /// Helm adds no definition to an installation, so an upgraded controller may find none.
    #[test]
    fn services_are_declared_without_the_definition_of_storage_containers() {
        let mut objects = listed();
        assert!(objects.declaration().is_none());
        objects.take(Change::NoStorageContainers);
        assert_eq!(names(&objects.declaration().unwrap()), [""; 0]);
    }

    #[test]
    fn storage_containers_are_declared_until_they_can_no_longer_be_watched() {
        let mut objects = listed();
        for event in [Event::Init, Event::InitApply(container()), Event::InitDone] {
            objects.take(Change::StorageContainer(event));
        }
        assert_eq!(names(&objects.declaration().unwrap()), ["hadoop"]);
        objects.take(Change::NoStorageContainers);
        assert_eq!(names(&objects.declaration().unwrap()), [""; 0]);
    }
}
