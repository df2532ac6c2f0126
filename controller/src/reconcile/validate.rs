//! Dereferencing and validating, once for each change.

use std::sync::Arc;

use super::Observed;
use super::state::ServiceState;
use crate::Service;
use crate::validate::{Platform, validate};

/// Checks a service against the runtimes, unless that was done with the very same.
pub(super) fn revalidate(
    state: &mut ServiceState,
    service: &Arc<Service>,
    observed: &Observed,
    platform: &Platform,
) {
    let runtimes = &observed.declaration.runtimes;
    let same = state.checked.as_ref().is_some_and(|(checked, against)| {
        Arc::ptr_eq(checked, service) && (Arc::ptr_eq(against, runtimes) || against == runtimes)
    });
    if !same {
        state.valid = Some(validate(service, runtimes, platform).map(Arc::new));
    }
    state.checked = Some((service.clone(), runtimes.clone()));
}
