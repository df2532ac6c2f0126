//! Hosts that a service asks for and another has. Pure.

use weir_cluster::Host;
use weir_controller::{Declaration, Validated};

/// One sentence for each host of the service, or of a canary of it, that another one has.
pub(crate) fn taken_hosts(service: &Validated, declaration: &Declaration) -> Vec<String> {
    let others = declaration.services.values();
    let others = others.filter_map(|declared| declared.validated());
    let others = others.filter(|other| other.service != service.service);
    let (own, canaries) = (&service.exposure.hosts, canary_hosts(service));
    let taken = others.flat_map(|other| {
        let is_older = age(other) < age(service);
        let theirs = &other.exposure.hosts;
        let of_canaries = canary_hosts(other);
        // Within a namespace a service's own host goes before what another makes of its own.
        let is_near = other.service.namespace() == service.service.namespace();
        let lost = |host: &&Host| is_older && (theirs.contains(host) || !is_near && of_canaries.contains(host));
        let lost_by_canary =
            |host: &&Host| (is_older || is_near) && theirs.contains(host) || is_older && of_canaries.contains(host);
        let taken = own.iter().filter(lost);
        let taken = taken.chain(canaries.iter().filter(lost_by_canary));
        let sentences = taken.map(|host| {
            let holder = &other.service;
            format!("metadata.name: host {host} belongs to {holder}: rename one of them")
        });
        sentences.collect::<Vec<_>>()
    });
    taken.collect()
}

/// The hosts of a service's canaries.
fn canary_hosts(service: &Validated) -> Vec<Host> {
    let Some(domain) = &service.exposure.tag_domain else {
        return Vec::new();
    };
    let canaries = service.canaries.iter();
    let hosts = canaries.filter_map(|canary| service.service.tagged_host(&canary.tag, domain).ok());
    hosts.collect()
}

/// The order in which services win their hosts.
fn age(service: &Validated) -> impl Ord + use<'_> {
    (service.since, &service.service)
}
