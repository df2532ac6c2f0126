//! Generations and dates of birth, which an API server would give.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use weir_cluster::ServiceName;
use weir_crds::InferenceService;

use crate::source::Service;

/// What was declared last, with its numbers.
#[derive(Debug, Default)]
pub(super) struct Generations(BTreeMap<ServiceName, Arc<Service>>);

impl Generations {
    /// Gives the services their numbers: the generation grows when the spec changes. One that is as it
    /// was stays the same value, so that nobody need compare it.
    pub(super) fn numbered(
        &mut self,
        services: BTreeMap<ServiceName, Service>,
        now: u64,
    ) -> BTreeMap<ServiceName, Arc<Service>> {
        let numbered = services.into_iter().map(|(name, service)| {
            let numbered = number(service, self.0.get(&name), now);
            (name, numbered)
        });
        self.0 = numbered.collect();
        self.0.clone()
    }
}

fn number(mut service: Service, before: Option<&Arc<Service>>, now: u64) -> Arc<Service> {
    let Some(before) = before else {
        let metadata = &mut Arc::make_mut(&mut service.object).metadata;
        metadata.generation = Some(1);
        let created = i64::try_from(now)
            .ok()
            .and_then(|s| Timestamp::from_second(s).ok());
        metadata.creation_timestamp = created.map(Time);
        return Arc::new(service);
    };
    if !Arc::ptr_eq(&service.object, &before.object) {
        follow(&mut service.object, &before.object);
    }
    match service == **before {
        true => before.clone(),
        false => Arc::new(service),
    }
}

/// Gives an object that was read anew the numbers that follow those it had.
fn follow(object: &mut Arc<InferenceService>, before: &Arc<InferenceService>) {
    let old = &before.metadata;
    let is_new = object.spec != before.spec;
    let metadata = &mut Arc::make_mut(object).metadata;
    metadata
        .creation_timestamp
        .clone_from(&old.creation_timestamp);
    metadata.generation = match is_new {
        true => old.generation.map(|generation| generation + 1),
        false => old.generation,
    };
}
