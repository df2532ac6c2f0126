//! Exposure of a service: hosts, timeouts, batching, mirroring.

use std::time::Duration;

use weir_cluster::{Batching, ComponentKind, Entrance, Host, OpenAiApi, Route, Tag};
use weir_crds::inference_service::Component;
use weir_crds::{BATCH_MAX_LATENCY, BATCH_MAX_SIZE};

use super::annotations::{LATEST, ServiceAnnotations};
use super::error_list::ErrorList;
use super::validated::Exposure;
use super::{Context, Platform};
use crate::manifest::annotations::{MIRROR, VISIBILITY};
use crate::runtimes::ServerType;

pub(super) fn read(
    context: &Context<'_>,
    annotations: &ServiceAnnotations,
    platform: &Platform,
    errors: &mut ErrorList,
) -> Option<Exposure> {
    let component = &context.object.spec.predictor.component;
    let entrance = entrance(context);
    let is_external = entrance == Entrance::Service && !is_cluster_local(context);
    let external = if is_external { external_hosts(context, platform, errors)? } else { Vec::new() };
    let mut hosts = external.clone();
    let inside = match entrance {
        Entrance::Service => context.service.inside_hosts(&platform.cluster_domain),
        Entrance::Component => context.service.component_hosts(&platform.cluster_domain),
    };
    hosts.extend(inside.ok()?);
    let is_by_model = platform.routes_model_names && entrance == Entrance::Service;
    check_mirror(context, annotations.mirror.as_ref(), errors);
    Some(Exposure {
        external_host: external.first().cloned(),
        scheme: platform.scheme,
        hosts,
        tag_domain: is_external.then(|| platform.domain.clone()),
        cluster_domain: platform.cluster_domain.clone(),
        model: is_by_model.then(|| context.service.name().into()),
        timeout: timeout(component),
        activation_timeout: annotations.activation_timeout.unwrap_or(Route::ACTIVATION_TIMEOUT),
        max_queue: annotations.max_queue.unwrap_or(Route::MAX_QUEUE),
        batching: batching(component, errors),
        mirror: annotations.mirror.clone(),
        control: annotations.control,
        access: annotations.access.clone(),
        openai: annotations.openai.unwrap_or_else(|| openai_of_runtime(context)),
        entrance,
    })
}

/// Returns the support of OpenAI's API by the runtime of the service's model. It is undeclared for a service without a
/// model and for a server that Weir does not know.
fn openai_of_runtime(context: &Context<'_>) -> OpenAiApi {
    let model = context.object.spec.predictor.model.as_ref();
    let runtime = model.and_then(|model| context.runtimes.choose(context.service.namespace(), model).ok());
    runtime.and_then(|runtime| runtime.server).map_or(OpenAiApi::Undeclared, |server| match server {
        ServerType::HuggingFace | ServerType::Vllm => OpenAiApi::Supported,
        ServerType::MlServer
        | ServerType::Triton
        | ServerType::TorchServe
        | ServerType::TensorFlow
        | ServerType::Weir => OpenAiApi::Absent,
    })
}

/// Returns the requests that the component receives: the transformer, or else the predictor, receives those to the
/// service. A predictor behind a transformer is reached inside the cluster alone, like an explainer.
fn entrance(context: &Context<'_>) -> Entrance {
    match context.service.component() {
        ComponentKind::Predictor if context.object.spec.transformer.is_none() => Entrance::Service,
        ComponentKind::Transformer => Entrance::Service,
        ComponentKind::Predictor | ComponentKind::Explainer => Entrance::Component,
    }
}

/// Returns the hosts for clients outside the cluster: the service's own, then its component's.
fn external_hosts(context: &Context<'_>, platform: &Platform, errors: &mut ErrorList) -> Option<Vec<Host>> {
    let service = context.service;
    match service.host(&platform.domain) {
        Ok(host) => {
            // The component's host may be too long for DNS; its cluster-local host works in any case.
            let of_component = service.component_host(&platform.domain).ok();
            Some([Some(host), of_component].into_iter().flatten().collect())
        }
        Err(error) => {
            let [label, _] = VISIBILITY;
            let message = format!(
                "{error}; shorten the name, or make the service cluster-local by the label {label}: cluster-local"
            );
            errors.add("metadata.name", message);
            None
        }
    }
}

fn is_cluster_local(context: &Context<'_>) -> bool {
    let labels = context.object.metadata.labels.as_ref();
    let mut keys = VISIBILITY.iter();
    labels.is_some_and(|labels| keys.any(|key| labels.get(*key).is_some_and(|value| value == "cluster-local")))
}

/// Returns the request timeout; None (0 or absent) means no limit.
fn timeout(component: &Component) -> Option<Duration> {
    let seconds = u64::try_from(component.timeout?).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

fn batching(component: &Component, errors: &mut ErrorList) -> Option<Batching> {
    let batcher = component.batcher.as_ref()?;
    let size = batcher.max_batch_size.unwrap_or(BATCH_MAX_SIZE);
    let latency = batcher.max_latency.unwrap_or(BATCH_MAX_LATENCY);
    let path = "spec.predictor.batcher";
    if size < 1 {
        let field = format!("{path}.maxBatchSize");
        errors.add(field, "a batch has at least 1 item");
    }
    if latency < 0 {
        let field = format!("{path}.maxLatency");
        errors.add(field, "maxLatency cannot be less than 0");
    }
    Some(Batching {
        max_size: u32::try_from(size).ok()?,
        max_latency: Duration::from_millis(u64::try_from(latency).ok()?),
    })
}

/// Checks that mirrored requests go to a known tag.
fn check_mirror(context: &Context<'_>, mirror: Option<&(Tag, u8)>, errors: &mut ErrorList) {
    let Some((tag, _)) = mirror else { return };
    let canaries = context.object.spec.canary.iter();
    let mut names = canaries.filter_map(|canary| canary.predictor.name.as_deref());
    if tag.as_str() != LATEST && !names.any(|name| name == tag.as_str()) {
        let field = format!("metadata.annotations[{MIRROR}]");
        let message = format!("`{tag}` is neither `{LATEST}` nor the name of a canary");
        errors.add(field, message);
    }
}
