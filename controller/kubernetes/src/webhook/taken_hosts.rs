//! Hosts that a service asks for and another has. Pure.

use weir_cluster::Host;
use weir_controller::{Declaration, Validated};

/// One sentence for each host of the service that an older one has.
pub(crate) fn taken_hosts(service: &Validated, declaration: &Declaration) -> Vec<String> {
    let others = declaration.services.values();
    let others = others.filter_map(|declared| declared.validated());
    let older = others.filter(|other| age(other) < age(service));
    let wanted = hosts(service);
    let taken = older.flat_map(|other| {
        let holder = &other.service;
        let theirs = hosts(other);
        let taken = wanted.iter().filter(move |host| theirs.contains(host));
        taken.map(move |host| {
            format!("metadata.name: host {host} belongs to {holder}: rename one of them")
        })
    });
    taken.collect()
}

/// The hosts of the service and of its canaries.
fn hosts(service: &Validated) -> Vec<Host> {
    let mut hosts = service.exposure.hosts.clone();
    if let Some(domain) = &service.exposure.tag_domain {
        let canaries = service.canaries.iter();
        hosts.extend(
            canaries.filter_map(|canary| service.service.tagged_host(&canary.tag, domain).ok()),
        );
    }
    hosts
}

/// The order in which services win their hosts.
fn age(service: &Validated) -> impl Ord + use<'_> {
    (service.since, &service.service)
}
