//! KServe's defaults for fields that a manifest omits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::constants::{BATCH_MAX_LATENCY, BATCH_MAX_SIZE, MIN_REPLICAS, MODEL_MOUNT_PATH, SERVING_CONTAINER};
use crate::inference_service::{
    Batcher, Component, Explainer, Framework, InferenceService, LogMode, Model, ModelFormat, Predictor, Protocol,
    StorageUri, Transformer,
};

/// Default requests and limits of a custom serving container, as in KServe.
const RESOURCES: [(&str, &str); 2] = [("cpu", "1"), ("memory", "2Gi")];

/// Annotation with the deployment mode, and the mode's old names with the new ones.
const MODE: &str = "serving.kserve.io/deploymentMode";
const MODES: [(&str, &str); 2] = [("RawDeployment", "Standard"), ("Serverless", "Knative")];

/// Fills in omitted fields, and replaces short forms and old names by the full ones. Given fields are kept, so that a
/// second call changes nothing.
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
        // A canary has no default minimum: its replicas follow those of the stable predictor.
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
    // A predictor with several forms is left unchanged; validation refuses it.
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
    single_storage_uri(predictor);
}

/// Moves the only entry of `storageUris` to `storageUri` if it is mounted at the same path: both have the same meaning.
fn single_storage_uri(predictor: &mut Predictor) {
    if let Some(model) = &mut predictor.model
        && model.framework.storage_uri.is_none()
        && let [only] = &predictor.storage_uris[..]
        && only.is_at_model_path()
    {
        model.framework.storage_uri = Some(only.uri.clone());
        predictor.storage_uris.clear();
    }
}

fn take_short_form(predictor: &mut Predictor) -> Option<Model> {
    Predictor::SHORT_FORMS
        .into_iter()
        .zip(predictor.short_forms_mut())
        .find_map(|(name, form)| Some(in_full(name, *form.take()?)))
}

/// Converts a short form to a model. Three of the formats default to the v2 protocol, as in KServe.
fn in_full(name: &str, mut framework: Framework) -> Model {
    if matches!(name, "triton" | "onnx" | "huggingface") {
        framework.protocol_version.get_or_insert(Protocol::V2);
    }
    Model { model_format: ModelFormat { name: name.to_owned(), version: None }, runtime: None, framework }
}

fn component(component: &mut Component) {
    component.min_replicas.get_or_insert(MIN_REPLICAS);
    traffic_settings(component);
}

fn traffic_settings(component: &mut Component) {
    if let Some(Batcher { max_batch_size, max_latency, timeout: _ }) = &mut component.batcher {
        max_batch_size.get_or_insert(BATCH_MAX_SIZE);
        max_latency.get_or_insert(BATCH_MAX_LATENCY);
    }
    if let Some(logger) = &mut component.logger {
        logger.mode.get_or_insert(LogMode::All);
    }
}

fn storage_uris(uris: &mut [StorageUri]) {
    for uri in uris {
        uri.mount_path.get_or_insert_with(|| MODEL_MOUNT_PATH.to_owned());
    }
}

/// Names a pod's only container `kserve-container`, and adds default resources to the serving container.
fn serving_container(pod: &mut PodSpec) {
    if let [only] = &mut pod.containers[..] {
        SERVING_CONTAINER.clone_into(&mut only.name);
    }
    let serving = pod.containers.iter_mut().find(|container| container.name == SERVING_CONTAINER);
    if let Some(container) = serving {
        resources(container);
    }
}

/// Adds default resources where neither limit nor request is given. With only one of them given, a default for the
/// other could contradict it.
fn resources(container: &mut Container) {
    let ResourceRequirements { limits, requests, .. } = container.resources.get_or_insert_default();
    let limits: &mut BTreeMap<_, _> = limits.get_or_insert_default();
    let requests: &mut BTreeMap<_, _> = requests.get_or_insert_default();
    for (resource, amount) in RESOURCES {
        if !limits.contains_key(resource) && !requests.contains_key(resource) {
            limits.insert(resource.to_owned(), Quantity(amount.to_owned()));
            requests.insert(resource.to_owned(), Quantity(amount.to_owned()));
        }
    }
}
