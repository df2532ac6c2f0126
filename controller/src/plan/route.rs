//! How gateways find the revisions.

use weir_cluster::{
    ClusterError, Destination, Host, Mirror, Route, ServiceName, Split, Tag, Tagged, Target,
};

use super::Share;
use crate::validate::Validated;

pub(super) fn route(valid: &Validated, shares: &[Share]) -> Result<Route, ClusterError> {
    let exposure = &valid.exposure;
    Ok(Route {
        service: valid.service.clone(),
        since: valid.since,
        hosts: exposure.hosts.clone(),
        model: exposure.model.clone(),
        destination: destination(valid, shares)?,
        tags: tags(valid, shares),
        timeout: exposure.timeout,
        activation_timeout: exposure.activation_timeout,
        max_queue: exposure.max_queue,
        batching: exposure.batching,
        mirror: mirror(valid, shares),
    })
}

fn destination(valid: &Validated, shares: &[Share]) -> Result<Destination, ClusterError> {
    let with_requests = shares.iter().filter(|share| share.percent > 0);
    let targets: Vec<_> = with_requests
        .map(|share| Target {
            revision: share.revision.clone(),
            weight: share.percent.into(),
        })
        .collect();
    match targets.is_empty() {
        true => {
            let sentence = format!("the service {} is stopped", valid.service);
            Ok(Destination::Nowhere(sentence.into()))
        }
        false => Split::new(targets).map(Destination::Split),
    }
}

fn tags(valid: &Validated, shares: &[Share]) -> Vec<Tagged> {
    let each = shares.iter().flat_map(|share| {
        share.tags.iter().map(|tag| Tagged {
            tag: tag.clone(),
            hosts: tagged_host(&valid.service, tag, valid.exposure.tag_domain.as_deref())
                .into_iter()
                .collect(),
            revision: share.revision.clone(),
        })
    });
    each.collect()
}

/// A tag whose host would be no host has none; the header `weir-tag` still leads to it.
pub(crate) fn tagged_host(service: &ServiceName, tag: &Tag, domain: Option<&str>) -> Option<Host> {
    service.tagged_host(tag, domain?).ok()
}

/// Copies go to the revision of a tag, unless it has all requests anyway.
fn mirror(valid: &Validated, shares: &[Share]) -> Option<Mirror> {
    let (tag, percent) = valid.exposure.mirror.as_ref()?;
    let to = shares.iter().find(|share| share.tags.contains(tag))?;
    (to.percent < 100).then(|| Mirror {
        revision: to.revision.clone(),
        percent: *percent,
    })
}
