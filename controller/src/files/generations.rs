//! Generations and creation times, which an API server would assign.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use weir_cluster::ServiceName;

use crate::service::{KeptObject, Service};

/// The services declared last, with their generations.
#[derive(Debug, Default)]
pub(super) struct Generations(BTreeMap<ServiceName, Arc<Service>>);

impl Generations {
    /// Sets `metadata.generation`, which grows when the spec changes, and `metadata.creationTimestamp`. An
    /// unchanged service stays the same value, so that comparing pointers is enough.
    pub(super) fn assign(
        &mut self,
        services: BTreeMap<ServiceName, Service>,
        now: u64,
    ) -> BTreeMap<ServiceName, Arc<Service>> {
        let assigned = services.into_iter().map(|(name, service)| {
            let assigned = match self.0.get(&name) {
                Some(before) => after(service, before),
                None => first(service, now),
            };
            (name, assigned)
        });
        self.0 = assigned.collect();
        self.0.clone()
    }
}

fn first(mut service: Service, now: u64) -> Arc<Service> {
    let metadata = service.object.metadata_mut();
    metadata.generation = Some(1);
    let created = i64::try_from(now)
        .ok()
        .and_then(|s| Timestamp::from_second(s).ok());
    metadata.creation_timestamp = created.map(Time);
    Arc::new(service)
}

fn after(mut service: Service, before: &Arc<Service>) -> Arc<Service> {
    if !service.object.is(&before.object) {
        follow(&mut service.object, &before.object);
    }
    if service == **before {
        before.clone()
    } else {
        Arc::new(service)
    }
}

/// Gives an object that was read again the generation that follows `before`.
fn follow(object: &mut KeptObject, before: &KeptObject) {
    let old = before.metadata();
    let is_changed = object.read().spec != before.read().spec;
    let metadata = object.metadata_mut();
    metadata
        .creation_timestamp
        .clone_from(&old.creation_timestamp);
    metadata.generation = old.generation.map(|old| old + i64::from(is_changed));
}
