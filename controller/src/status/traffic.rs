//! Revisions and their traffic for `components` and `canaryStatuses`.

use weir_cluster::{Entrance, RevisionName, Tag};
use weir_crds::inference_service::{Address, CanaryStatus, ComponentStatus, Traffic};

use super::{RevisionState, StatusInputs, model};
use crate::manifest::validate::{LATEST, PREVIOUS, Validated};
use crate::plan::tagged_host;

pub(super) fn predictor(validated: &Validated, inputs: &StatusInputs<'_>) -> ComponentStatus {
    let rollout = &inputs.history.rollout;
    let name = |revision: &RevisionName| revision.as_str().to_owned();
    let shown = |revision: &&RevisionName| inputs.history.has_loaded(revision);
    let newest = rollout.newest();
    let stable = rollout.stable.as_ref();
    let service = &validated.service;
    let (name_inside, domain) = (service.component_name(), &validated.exposure.cluster_domain);
    let inner = format!("http://{name_inside}.{}.svc.{domain}", service.namespace());
    let outer = validated.exposure.tag_domain.as_deref();
    let outer = outer.and_then(|domain| service.component_host(domain).ok());
    let url = match validated.exposure.entrance {
        Entrance::Service => outer.and_then(|host| inputs.url(validated.exposure.scheme, &host)),
        Entrance::Component => Some(inner.clone()),
    };
    ComponentStatus {
        latest_ready_revision: newest.filter(shown).or(stable.filter(shown)).map(name),
        latest_created_revision: newest.map(name),
        previous_rolledout_revision: rollout.previous.as_ref().map(|previous| name(&previous.revision)),
        latest_rolledout_revision: stable.filter(shown).map(name),
        traffic: traffic(validated, inputs),
        rest_url: url.clone(),
        grpc_url: url.clone(),
        url,
        address: Some(Address { url: Some(inner) }),
    }
}

fn traffic(validated: &Validated, inputs: &StatusInputs<'_>) -> Vec<Traffic> {
    let newest = inputs.history.rollout.newest();
    let shares = inputs.plan.iter().flat_map(|plan| &plan.shares);
    let shown = shares.filter(|share| share.percent > 0 || !share.tags.is_empty());
    let each = shown.map(|share| {
        let tag = shown_tag(&share.tags);
        let domain = validated.exposure.tag_domain.as_deref();
        let host = tag.and_then(|tag| tagged_host(&validated.service, tag, domain));
        Traffic {
            revision_name: Some(share.revision.as_str().to_owned()),
            latest_revision: Some(newest == Some(&share.revision)),
            percent: Some(share.percent.into()),
            tag: tag.map(|tag| tag.as_str().to_owned()),
            url: host.and_then(|host| inputs.url(validated.exposure.scheme, &host)),
        }
    });
    each.collect()
}

/// Returns the tag that a revision's entry shows, which has room for one. Users look for `prev` and `latest`; the name
/// of a canary is in `canaryStatuses` as well.
fn shown_tag(tags: &[Tag]) -> Option<&Tag> {
    let of = |name| tags.iter().find(|tag| tag.as_str() == name);
    of(PREVIOUS).or_else(|| of(LATEST)).or(tags.first())
}

pub(super) fn canaries(validated: &Validated, inputs: &StatusInputs<'_>) -> Vec<CanaryStatus> {
    let known = inputs.history.canaries.iter().take(validated.canaries.len());
    let each = known.map(|of| CanaryStatus {
        name: of.tag.as_str().to_owned(),
        ready: matches!(
            inputs.state(&of.revision),
            RevisionState::Ready | RevisionState::Standby | RevisionState::Restarting
        ),
        traffic_percent: of.progress.share.percent.into(),
        model_status: Some(model::of_revision(inputs, &of.revision)),
    });
    each.collect()
}
