//! Generations and creation times, which an API server would assign, for services in files.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use weir_cluster::ServiceName;

use crate::declaration::{Declaration, DeclaredService};
use crate::manifest::service::{KeptObject, Service};

/// Last declared services with their generations.
#[derive(Debug)]
pub(super) struct Generations {
    last: BTreeMap<ServiceName, Arc<Service>>,
    /// Creation times from before a restart. They apply only to the first services assigned: a service declared later
    /// is new.
    known: CreationTimes,
}

impl Generations {
    /// Returns a state without services. The first services assigned get these creation times.
    pub(super) fn new(known: CreationTimes) -> Self {
        Self { last: BTreeMap::new(), known }
    }

    /// Sets `metadata.generation`, which grows when the spec changes, and `metadata.creationTimestamp`. An unchanged
    /// service keeps its allocation, so that comparing pointers is enough.
    pub(super) fn assign(
        &mut self,
        services: BTreeMap<ServiceName, Service>,
        now: u64,
    ) -> BTreeMap<ServiceName, Arc<Service>> {
        let known = std::mem::take(&mut self.known);
        let assigned = services.into_iter().map(|(name, service)| {
            let assigned = match self.last.get(&name) {
                Some(before) => after(service, before),
                None => first(service, known.get(&name).copied().unwrap_or(now)),
            };
            (name, assigned)
        });
        self.last = assigned.collect();
        self.last.clone()
    }
}

fn first(mut service: Service, created: u64) -> Arc<Service> {
    let metadata = service.object.metadata_mut();
    metadata.generation = Some(1);
    let created = i64::try_from(created).ok().and_then(|s| Timestamp::from_second(s).ok());
    metadata.creation_timestamp = created.map(Time);
    Arc::new(service)
}

fn after(mut service: Service, before: &Arc<Service>) -> Arc<Service> {
    if !service.object.is(&before.object) {
        follow(&mut service.object, &before.object);
    }
    if service == **before { before.clone() } else { Arc::new(service) }
}

/// Copies the creation time and the generation of `before` to an object that was read again; the generation is
/// incremented if the spec has changed.
fn follow(object: &mut KeptObject, before: &KeptObject) {
    let old = before.metadata();
    let is_changed = object.read().spec != before.read().spec;
    let metadata = object.metadata_mut();
    metadata.creation_timestamp.clone_from(&old.creation_timestamp);
    metadata.generation = old.generation.map(|old| old + i64::from(is_changed));
}

/// Creation times in seconds since 1970, by service. If two services claim a host or a model name, the older one keeps
/// it.
pub(super) type CreationTimes = BTreeMap<ServiceName, u64>;

/// Returns the creation times of all declared services.
pub(super) fn creation_times(declaration: &Declaration) -> CreationTimes {
    let services = declaration.services.iter();
    let predictors = services.filter(|(name, _)| **name == name.whole());
    let times = predictors.filter_map(|(name, declared)| Some((name.clone(), created(declared)?)));
    times.collect()
}

fn created(declared: &DeclaredService) -> Option<u64> {
    let created = declared.service.metadata().creation_timestamp.as_ref()?;
    u64::try_from(created.0.as_second()).ok()
}
