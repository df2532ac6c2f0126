//! Creation times of services. If two services claim a host or a model name, the older one keeps it.

use std::collections::BTreeMap;

use weir_cluster::ServiceName;

use crate::declaration::{Declaration, DeclaredService};

/// Creation times in seconds since 1970, by service.
pub(super) type CreationTimes = BTreeMap<ServiceName, u64>;

/// Returns the creation times of all declared services.
pub(super) fn of(declaration: &Declaration) -> CreationTimes {
    let services = declaration.services.iter();
    let predictors = services.filter(|(name, _)| **name == name.whole());
    let times = predictors.filter_map(|(name, declared)| Some((name.clone(), created(declared)?)));
    times.collect()
}

fn created(declared: &DeclaredService) -> Option<u64> {
    let created = declared.service.metadata().creation_timestamp.as_ref()?;
    u64::try_from(created.0.as_second()).ok()
}
