//! Check for hosts of a service that belong to another service. Pure.

use weir_cluster::Host;
use weir_controller::{Declaration, Validated};

/// Returns a sentence for each host of the service, or of one of its canaries, that belongs to another service.
pub(crate) fn taken_hosts(service: &Validated, declaration: &Declaration) -> Vec<String> {
    let others = declaration
        .services
        .values()
        .filter_map(|declared| declared.validated())
        .filter(|other| other.service.whole() != service.service.whole());
    let (own, canaries) = (&service.exposure.hosts, canary_hosts(service));
    let taken = others.flat_map(|other| {
        let is_older = age(other) < age(service);
        let theirs = &other.exposure.hosts;
        let of_canaries = canary_hosts(other);
        // Within a namespace a service's own host wins over a canary's host of another service.
        let is_near = other.service.namespace() == service.service.namespace();
        let lost = |host: &&Host| is_older && (theirs.contains(host) || !is_near && of_canaries.contains(host));
        let lost_by_canary =
            |host: &&Host| (is_older || is_near) && theirs.contains(host) || is_older && of_canaries.contains(host);
        let taken = own.iter().filter(lost).chain(canaries.iter().filter(lost_by_canary));
        let sentences = taken.map(|host| {
            let holder = other.service.whole();
            format!("metadata.name: host {host} belongs to {holder}: rename one of them")
        });
        sentences.collect::<Vec<_>>()
    });
    taken.collect()
}

/// Returns the hosts of a service's canaries.
fn canary_hosts(service: &Validated) -> Vec<Host> {
    let Some(domain) = &service.exposure.tag_domain else {
        return Vec::new();
    };
    let canaries = service.canaries.iter();
    let hosts = canaries.filter_map(|canary| service.service.tagged_host(&canary.tag, domain).ok());
    hosts.collect()
}

/// Returns the sort key of services: of two services that claim a host, the one with the smaller key gets it.
fn age(service: &Validated) -> impl Ord + use<'_> {
    (service.since, &service.service)
}
