//! What a service means where its manifest is silent: KServe's defaults.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::inference_service::{
    Batcher, Component, Explainer, Framework, InferenceService, LogMode, Model, ModelFormat,
    Predictor, Protocol, StorageUri, Transformer,
};

/// Replicas of a component that says nothing.
pub const MIN_REPLICAS: i32 = 1;

/// Items in a batch at most, where `batcher` does not say; the default of KServe's batcher.
pub const BATCH_MAX_SIZE: i32 = 32;

/// Milliseconds an item waits for others at most, where `batcher` does not say; the default of
/// KServe's batcher. It bounds the wait of a busy runtime: an idle one is never waited for.
pub const BATCH_MAX_LATENCY: i32 = 5000;

/// Where a container sees its model.
pub const MODEL_MOUNT_PATH: &str = "/mnt/models";

/// Name of the container that serves.
pub const SERVING_CONTAINER: &str = "kserve-container";

/// What a serving container of the user's own gets where it asks for nothing, as KServe ships it.
const RESOURCES: [(&str, &str); 2] = [("cpu", "1"), ("memory", "2Gi")];

/// Where the deployment mode is written, and its two names for the one that Weir serves.
const MODE: &str = "serving.kserve.io/deploymentMode";
const MODES: [(&str, &str); 2] = [("RawDeployment", "Standard"), ("Serverless", "Knative")];

/// Fills in what the service leaves out, and writes short forms and old names in full. What is there
/// is kept, so doing it twice changes nothing.
#[must_use]
pub fn with_defaults(mut service: InferenceService) -> InferenceService {
    if let Some(annotations) = &mut service.metadata.annotations
        && let Some(mode) = annotations.get_mut(MODE)
        && let Some((_, name)) = MODES.iter().find(|(old, _)| old == mode)
    {
        (*name).clone_into(mode);
    }
    let spec = &mut service.spec;
    predictor(&mut spec.predictor);
    component(&mut spec.predictor.component);
    if let Some(given) = &mut spec.transformer {
        transformer(given);
    }
    if let Some(given) = &mut spec.explainer {
        explainer(given);
    }
    for canary in &mut spec.canary {
        // Its replicas follow the stable predictor's, so it has no least number of its own.
        predictor(&mut canary.predictor);
        traffic_settings(&mut canary.predictor.component);
    }
    service
}

fn transformer(transformer: &mut Transformer) {
    serving_container(&mut transformer.pod);
    storage_uris(&mut transformer.storage_uris);
    component(&mut transformer.component);
}

fn explainer(explainer: &mut Explainer) {
    if explainer.art.is_none() {
        serving_container(&mut explainer.pod);
    }
    storage_uris(&mut explainer.storage_uris);
    component(&mut explainer.component);
}

fn predictor(predictor: &mut Predictor) {
    // Of several forms none is preferred silently: they stay as they are, to be refused.
    if predictor.frameworks().count() == 1
        && let Some(model) = take_short_form(predictor)
    {
        predictor.model = Some(Box::new(model));
    }
    if let Some(model) = &mut predictor.model
        && model.model_format.name == "triton"
    {
        let protocol = &mut model.framework.protocol_version;
        protocol.get_or_insert(Protocol::V2);
    }
    if predictor.frameworks().next().is_none() {
        serving_container(&mut predictor.pod);
    }
    storage_uris(&mut predictor.storage_uris);
}

fn take_short_form(predictor: &mut Predictor) -> Option<Model> {
    Predictor::SHORT_FORMS
        .into_iter()
        .zip(predictor.short_forms_mut())
        .find_map(|(name, form)| Some(in_full(name, *form.take()?)))
}

/// A short form as a model. Runtimes of these three have always spoken v2.
fn in_full(name: &str, mut framework: Framework) -> Model {
    if matches!(name, "triton" | "onnx" | "huggingface") {
        framework.protocol_version.get_or_insert(Protocol::V2);
    }
    Model {
        model_format: ModelFormat {
            name: name.to_owned(),
            version: None,
        },
        runtime: None,
        framework,
    }
}

fn component(component: &mut Component) {
    component.min_replicas.get_or_insert(MIN_REPLICAS);
    traffic_settings(component);
}

fn traffic_settings(component: &mut Component) {
    if let Some(Batcher {
        max_batch_size,
        max_latency,
        timeout: _,
    }) = &mut component.batcher
    {
        max_batch_size.get_or_insert(BATCH_MAX_SIZE);
        max_latency.get_or_insert(BATCH_MAX_LATENCY);
    }
    if let Some(logger) = &mut component.logger {
        logger.mode.get_or_insert(LogMode::All);
    }
}

fn storage_uris(uris: &mut [StorageUri]) {
    for uri in uris {
        uri.mount_path
            .get_or_insert_with(|| MODEL_MOUNT_PATH.to_owned());
    }
}

/// The container that serves is known by its name: a lone one is it whatever it is called.
fn serving_container(pod: &mut PodSpec) {
    if let [only] = &mut pod.containers[..] {
        SERVING_CONTAINER.clone_into(&mut only.name);
    }
    let serving = pod
        .containers
        .iter_mut()
        .find(|container| container.name == SERVING_CONTAINER);
    if let Some(container) = serving {
        resources(container);
    }
}

/// A resource that the user limits or requests is the user's: a default beside it could ask for more
/// than the limit.
fn resources(container: &mut Container) {
    let ResourceRequirements {
        limits, requests, ..
    } = container.resources.get_or_insert_default();
    let limits: &mut BTreeMap<_, _> = limits.get_or_insert_default();
    let requests: &mut BTreeMap<_, _> = requests.get_or_insert_default();
    for (resource, amount) in RESOURCES {
        if !limits.contains_key(resource) && !requests.contains_key(resource) {
            limits.insert(resource.to_owned(), Quantity(amount.to_owned()));
            requests.insert(resource.to_owned(), Quantity(amount.to_owned()));
        }
    }
}
