//! Hosts that a service asks for and another has. Pure.

use weir_controller::{Declaration, Validated};

/// One sentence for each host of the service that an older one has.
pub(crate) fn taken_hosts(service: &Validated, declaration: &Declaration) -> Vec<String> {
    let others = declaration.services.values();
    let others = others.filter_map(|declared| declared.validated());
    let older = others.filter(|other| age(other) < age(service));
    let taken = older.flat_map(|other| {
        let hosts = service.exposure.hosts.iter();
        hosts
            .filter(|host| other.exposure.hosts.contains(host))
            .map(|host| {
                let holder = &other.service;
                format!("metadata.name: host {host} belongs to {holder}: rename one of them")
            })
    });
    taken.collect()
}

/// The order in which services win their hosts.
fn age(service: &Validated) -> impl Ord + use<'_> {
    (service.since, &service.service)
}
