//! Pod template of a service, merged from its runtime and its manifest.

mod image_build;
mod merge;
mod placeholder;
mod server_defaults;
#[cfg(test)]
mod tests;
mod tracing;
mod variable;

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};
use weir_cluster::Workload;
use weir_crds::inference_service::{Model, Predictor};
use weir_crds::serving_runtime::RuntimePod;

use crate::manifest::annotations::{KNATIVE, PREFIX, SHAPING_OF_PODS};

pub(crate) use image_build::{choose_build, require_gpu, unsupported_gpu};
pub(crate) use server_defaults::add_defaults;
use tracing::TRANSFORMER;
pub(crate) use tracing::{Traced, trace};
pub(crate) use variable::{allow_control, limit_batches};

/// Fields of a runtime that belong to the pod's metadata.
const METADATA: [&str; 2] = ["labels", "annotations"];

/// Prefixes of a component's annotations that configure Weir and are not copied to the pod.
const NOT_COPIED: [&str; 2] = [KNATIVE, PREFIX];

/// Prefixes of a service's annotations that do not address its pods.
const NOT_INHERITED: [&str; 4] = [KNATIVE, PREFIX, "kubectl.kubernetes.io/", "serving.kserve.io/"];

/// Merges the predictor's pod over the runtime's, and the model's container over the serving container.
pub(crate) fn of_model(
    object: &ObjectMeta,
    runtime: &RuntimePod,
    predictor: &Predictor,
    model: &Model,
) -> Result<PodTemplateSpec, String> {
    let mut pod = json(runtime)?;
    let own: Vec<_> = METADATA.map(|field| take(&mut pod, field)).into();
    merge::merge(&mut pod, json(&predictor.pod)?);
    let mut over = without_name(json(&model.framework.container)?);
    let serving = serving(&mut pod)?;
    merge::join_args(serving, &mut over);
    merge::merge(serving, over);
    if let Some(tag) = &model.framework.runtime_version {
        set_tag(serving, tag);
    }
    placeholders(&mut pod, object)?;
    template(object, predictor, pod, own)
}

/// Replaces the placeholders in the two containers that are merged from a runtime and a service, as in KServe. Braces
/// in other containers are left alone: they may be a chat template, for instance.
fn placeholders(pod: &mut Value, object: &ObjectMeta) -> Result<(), String> {
    placeholder::fill(serving(pod)?, object)?;
    let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
    let mut containers = containers.into_iter().flatten();
    let is_transformer = |container: &&mut Value| container.get("name").and_then(Value::as_str) == Some(TRANSFORMER);
    match containers.find(is_transformer) {
        Some(transformer) => placeholder::fill(transformer, object),
        None => Ok(()),
    }
}

/// Returns the pod template of a predictor with its own containers, in which placeholders are not replaced, as in
/// KServe.
pub(crate) fn of_containers(object: &ObjectMeta, predictor: &Predictor) -> Result<PodTemplateSpec, String> {
    template(object, predictor, json(&predictor.pod)?, Vec::new())
}

fn template(
    object: &ObjectMeta,
    predictor: &Predictor,
    pod: Value,
    own: Vec<Option<Value>>,
) -> Result<PodTemplateSpec, String> {
    let mut metadata = Map::new();
    for (field, value) in METADATA.into_iter().zip(own) {
        metadata.extend(value.map(|value| (field.to_owned(), value)));
    }
    let mut metadata = Value::Object(metadata);
    override_runtime(&mut metadata, object);
    shape_by_service(&mut metadata, object);
    let component = &predictor.component;
    let annotations = component.annotations.clone().map(|mut annotations| {
        annotations.retain(|name, _| !NOT_COPIED.iter().any(|ours| name.starts_with(ours)));
        annotations
    });
    for (field, map) in METADATA.into_iter().zip([&component.labels, &annotations]) {
        if let Some(map) = map.as_ref().filter(|map| !map.is_empty()) {
            merge::merge(&mut metadata, serde_json::json!({ field: map }));
        }
    }
    Ok(PodTemplateSpec { metadata: Some(read(metadata)?), spec: Some(read::<PodSpec>(pod)?) })
}

/// Replaces labels and annotations of the runtime by the service's values. KServe's precedence is component, service,
/// runtime. Labels and annotations that only the service has are not part of a revision.
fn override_runtime(metadata: &mut Value, service: &ObjectMeta) {
    for (field, of_service) in METADATA.into_iter().zip([&service.labels, &service.annotations]) {
        let of_runtime = metadata.get_mut(field).and_then(Value::as_object_mut);
        for (name, value) in of_runtime.into_iter().flatten() {
            let value_of_service = of_service.as_ref().and_then(|map| map.get(name));
            let value_of_service = value_of_service.filter(|_| !NOT_INHERITED.iter().any(|own| name.starts_with(own)));
            if let Some(value_of_service) = value_of_service {
                *value = value_of_service.as_str().into();
            }
        }
    }
}

/// Copies the service's annotations that affect its pods, so that a changed value makes a new revision.
fn shape_by_service(metadata: &mut Value, service: &ObjectMeta) {
    let annotations = service.annotations.iter().flatten();
    let shaping = annotations.filter(|(name, _)| SHAPING_OF_PODS.contains(&name.as_str()));
    let shaping: serde_json::Map<_, _> = shaping.map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    if !shaping.is_empty() {
        merge::merge(metadata, serde_json::json!({ "annotations": shaping }));
    }
}

/// Returns the serving container, in JSON.
fn serving(pod: &mut Value) -> Result<&mut Value, String> {
    let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
    let containers = containers.ok_or("the runtime has no container")?;
    let named = containers
        .iter()
        .position(|container| container.get("name").and_then(Value::as_str) == Some(Workload::CONTAINER));
    let found = containers.get_mut(named.unwrap_or(0));
    found.ok_or_else(|| "the runtime has no container".to_owned())
}

/// Replaces the tag of an image, unless the image is pinned by a digest.
fn set_tag(container: &mut Value, tag: &str) {
    let Some(Value::String(image)) = container.get_mut("image") else {
        return;
    };
    if image.contains('@') {
        return;
    }
    let name = image.rfind('/').map_or(0, |slash| slash + 1);
    if let Some(colon) = image[name..].find(':') {
        image.truncate(name + colon);
    }
    image.push(':');
    image.push_str(tag);
}

/// Removes the name, because the serving container keeps its own.
fn without_name(mut container: Value) -> Value {
    if let Some(fields) = container.as_object_mut() {
        fields.remove("name");
    }
    container
}

fn take(value: &mut Value, field: &str) -> Option<Value> {
    value.as_object_mut()?.remove(field)
}

fn json(value: &impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("the pod template is invalid: {error}"))
}
