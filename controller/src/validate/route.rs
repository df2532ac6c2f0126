//! How a service is reached: hosts, times, batches, copies.

use std::time::Duration;

use weir_cluster::{Batching, Host, Route, Tag};
use weir_crds::inference_service::Component;
use weir_crds::{BATCH_MAX_LATENCY, BATCH_MAX_SIZE};

use super::annotations::{LATEST, ServiceAnnotations};
use super::{Context, Exposure, Found, ModelNames, Platform, right};
use crate::annotations::VISIBILITY;

pub(super) fn read(
    context: &Context<'_>,
    annotations: &ServiceAnnotations,
    platform: &Platform,
    found: &mut Found,
) -> Option<Exposure> {
    let component = &context.object.spec.predictor.component;
    let is_outside = !is_cluster_local(context);
    let outside = match is_outside {
        true => hosts_outside(context, platform, found)?,
        false => Vec::new(),
    };
    let mut hosts = outside.clone();
    hosts.extend(context.service.inside_hosts().ok()?);
    mirror_leads_somewhere(context, annotations.mirror.as_ref(), found);
    Some(Exposure {
        outside: outside.first().cloned(),
        hosts,
        tag_domain: is_outside.then(|| platform.domain.clone()),
        model: match platform.model_names {
            ModelNames::Lead => Some(context.service.name().into()),
            ModelNames::DoNotLead => None,
        },
        timeout: timeout(component),
        activation_timeout: annotations
            .activation_timeout
            .unwrap_or(Route::ACTIVATION_TIMEOUT),
        max_queue: annotations.max_queue.unwrap_or(Route::MAX_QUEUE),
        batching: batching(component, found),
        mirror: annotations.mirror.clone(),
    })
}

/// The service's own host first, then its predictor's.
fn hosts_outside(
    context: &Context<'_>,
    platform: &Platform,
    found: &mut Found,
) -> Option<Vec<Host>> {
    let service = context.service;
    match service.host(&platform.domain) {
        Ok(host) => {
            // The predictor's is longer, and a convenience: where it is no label any more, the inner
            // host still leads to the predictor.
            let predictor = service.predictor_host(&platform.domain).ok();
            Some([Some(host), predictor].into_iter().flatten().collect())
        }
        Err(error) => {
            found.add("metadata.name", error.to_string());
            None
        }
    }
}

fn is_cluster_local(context: &Context<'_>) -> bool {
    let labels = context.object.metadata.labels.as_ref();
    let mut keys = VISIBILITY.iter();
    labels.is_some_and(|labels| {
        keys.any(|key| {
            labels
                .get(*key)
                .is_some_and(|value| value == "cluster-local")
        })
    })
}

/// Seconds; 0 and absent are no limit of its own.
fn timeout(component: &Component) -> Option<Duration> {
    let seconds = u64::try_from(component.timeout?).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

fn batching(component: &Component, found: &mut Found) -> Option<Batching> {
    let batcher = component.batcher.as_ref()?;
    let size = batcher.max_batch_size.unwrap_or(BATCH_MAX_SIZE);
    let latency = batcher.max_latency.unwrap_or(BATCH_MAX_LATENCY);
    let path = "spec.predictor.batcher";
    let because = "a batch has at least 1 item";
    found.check(right(size >= 1), format!("{path}.maxBatchSize"), because);
    let because = "maxLatency cannot be less than 0";
    found.check(right(latency >= 0), format!("{path}.maxLatency"), because);
    Some(Batching {
        max_size: u32::try_from(size).ok()?,
        max_latency: Duration::from_millis(u64::try_from(latency).ok()?),
    })
}

fn mirror_leads_somewhere(context: &Context<'_>, mirror: Option<&(Tag, u8)>, found: &mut Found) {
    let Some((tag, _)) = mirror else { return };
    let canaries = context.object.spec.canary.iter();
    let mut names = canaries.filter_map(|canary| canary.predictor.name.as_deref());
    let leads = tag.as_str() == LATEST || names.any(|name| name == tag.as_str());
    let field = format!("metadata.annotations[{}]", crate::annotations::MIRROR);
    let because = format!("`{tag}` is neither `{LATEST}` nor the name of a canary");
    found.check(right(leads), field, because);
}
