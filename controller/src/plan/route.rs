//! Route of a service, for the gateways.

use weir_cluster::{ClusterError, Destination, Host, Mirror, Route, ServiceName, Split, Tag, Tagged, Target};

use super::Share;
use crate::manifest::validate::Validated;

pub(super) fn route(validated: &Validated, shares: &[Share]) -> Result<Route, ClusterError> {
    let exposure = &validated.exposure;
    Ok(Route {
        service: validated.service.clone(),
        since: validated.since,
        hosts: exposure.hosts.clone(),
        refused_hosts: Vec::new(),
        model: exposure.model.clone(),
        destination: destination(validated, shares)?,
        tags: tags(validated, shares),
        timeout: exposure.timeout,
        activation_timeout: exposure.activation_timeout,
        max_queue: exposure.max_queue,
        batching: exposure.batching,
        mirror: mirror(validated, shares),
        control: exposure.control,
        access: exposure.access.clone(),
        openai: exposure.openai,
        entrance: exposure.entrance,
    })
}

fn destination(validated: &Validated, shares: &[Share]) -> Result<Destination, ClusterError> {
    let with_requests = shares.iter().filter(|share| share.percent > 0);
    let targets: Vec<_> =
        with_requests.map(|share| Target { revision: share.revision.clone(), weight: share.percent.into() }).collect();
    if targets.is_empty() {
        let message = format!("the service {} is stopped", validated.service);
        return Ok(Destination::Nowhere(message.into()));
    }
    Split::new(targets).map(Destination::Split)
}

fn tags(validated: &Validated, shares: &[Share]) -> Vec<Tagged> {
    let each = shares.iter().flat_map(|share| {
        share.tags.iter().map(|tag| Tagged {
            tag: tag.clone(),
            hosts: tagged_host(&validated.service, tag, validated.exposure.tag_domain.as_deref()).into_iter().collect(),
            revision: share.revision.clone(),
        })
    });
    each.collect()
}

/// Returns the host of a tag, or None if it would be invalid. The header `weir-tag` works in any case.
pub(crate) fn tagged_host(service: &ServiceName, tag: &Tag, domain: Option<&str>) -> Option<Host> {
    service.tagged_host(tag, domain?).ok()
}

/// Mirrors requests to the revision of a tag, unless that revision receives all requests anyway.
fn mirror(validated: &Validated, shares: &[Share]) -> Option<Mirror> {
    let (tag, percent) = validated.exposure.mirror.as_ref()?;
    let to = shares.iter().find(|share| share.tags.contains(tag))?;
    (to.percent < 100).then(|| Mirror { revision: to.revision.clone(), percent: *percent })
}
