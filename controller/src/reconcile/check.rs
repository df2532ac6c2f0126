//! Dereferencing and validating, once for each change.

use std::sync::Arc;

use super::World;
use super::memory::Memory;
use crate::Service;
use crate::validate::{Platform, validate};

/// Checks a service against the runtimes, unless that was done with the very same.
pub(super) fn check(
    memory: &mut Memory,
    service: &Arc<Service>,
    world: &World,
    platform: &Platform,
) {
    let runtimes = &world.declaration.runtimes;
    let same = memory.checked.as_ref().is_some_and(|(checked, against)| {
        Arc::ptr_eq(checked, service) && (Arc::ptr_eq(against, runtimes) || against == runtimes)
    });
    if !same {
        memory.valid = Some(validate(service, runtimes, platform).map(Arc::new));
    }
    memory.checked = Some((service.clone(), runtimes.clone()));
}
