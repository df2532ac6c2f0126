//! Checks for pods that every API server refuses, by the rules of Kubernetes that manifests break most often. The
//! schema does not check them, because it accepts parts of pods as they are.

mod containers;
pub(super) mod metadata;
mod ports;
mod probes;
mod resources;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use weir_cluster::PodTemplate;
use weir_crds::inference_service::Predictor;

use super::error_list::ErrorList;
use crate::manifest::field_error::FieldError;

/// Most errors that are reported for a pod, both as written and as merged: more than anyone corrects at once. The limit
/// bounds the work, because each error is compared with the others.
const MOST_ERRORS: usize = 256;

/// Adds the errors in a predictor's pod, both as written and as merged with its runtime's; `path` is the predictor's.
pub(super) fn check(path: &str, predictor: &Predictor, template: &PodTemplateSpec, errors: &mut ErrorList) {
    let mut written = written(predictor);
    written.truncate(MOST_ERRORS);
    // An error in the written pod also appears in the merged one, and is reported once.
    let is_new = |error: &FieldError| written.iter().all(|known| known.message != error.message);
    let mut merged = merged(predictor, template);
    merged.retain(is_new);
    merged.truncate(MOST_ERRORS);
    for error in written.into_iter().chain(merged) {
        // A canary shares most of its pod with the stable predictor, so an error there is reported once.
        let is_known = |known: &FieldError| known.message == error.message && known.field.ends_with(&error.field);
        if !errors.list.iter().any(is_known) {
            errors.add(joined(path, &error.field), error.message);
        }
    }
}

/// Returns the errors in the parts of a pod that the service writes, with their fields below the predictor's.
fn written(predictor: &Predictor) -> Vec<FieldError> {
    let pod = &predictor.pod;
    let mut errors: Vec<_> = of_pod(pod).into_iter().collect();
    errors.extend(same_names(pod));
    for (path, container) in parts(predictor) {
        errors.extend(below(&path, containers::errors(container)));
    }
    errors
}

/// Returns the errors in the whole pod, with the fields of the parts that the service writes.
fn merged(predictor: &Predictor, template: &PodTemplateSpec) -> Vec<FieldError> {
    let mut errors: Vec<_> = template.metadata.iter().flat_map(metadata::errors).collect();
    let Some(pod) = &template.spec else {
        return errors;
    };
    errors.extend(of_pod(pod));
    let serving = PodTemplate::container(template).map(|container| &*container.name);
    let paths = paths(predictor, serving);
    let init = pod.init_containers.iter().flatten();
    for container in init.chain(&pod.containers) {
        // The path is empty for a container of the runtime.
        let path = paths.get(&*container.name).map_or("", String::as_str);
        errors.extend(below(path, containers::errors(container)));
        let field = match path {
            "" => String::new(),
            path => joined(path, "resources"),
        };
        let resources = resources::errors(container).into_iter();
        errors.extend(resources.map(|message| FieldError::new(&*field, message)));
    }
    let volumes = volumes::errors(pod).into_iter();
    errors.extend(volumes.map(|message| FieldError::new("", message)));
    errors
}

/// Returns the containers that the service writes, each with its field.
fn parts(predictor: &Predictor) -> Vec<(String, &Container)> {
    let model = predictor.model.iter();
    let model = model.map(|model| ("model".to_owned(), &*model.framework.container));
    let pod = &predictor.pod;
    let init = pod
        .init_containers
        .iter()
        .flatten()
        .enumerate()
        .map(|(i, container)| (format!("initContainers[{i}]"), container));
    let own = pod.containers.iter().enumerate().map(|(i, container)| (format!("containers[{i}]"), container));
    model.chain(init).chain(own).collect()
}

/// Returns the fields of the containers that the service writes, by name. The model's container is the serving one, and
/// of two containers with one name the first counts.
fn paths<'a>(predictor: &'a Predictor, serving: Option<&'a str>) -> HashMap<&'a str, String> {
    let model = serving.filter(|_| predictor.model.is_some());
    let model = model.map(|name| (name, "model".to_owned()));
    let mut paths: HashMap<_, _> = model.into_iter().collect();
    for (path, part) in parts(predictor) {
        paths.entry(&*part.name).or_insert(path);
    }
    paths
}

fn of_pod(pod: &PodSpec) -> Option<FieldError> {
    let seconds = pod.termination_grace_period_seconds?;
    let message = format!("{seconds} is below 0: write seconds, such as 30");
    (seconds < 0).then(|| FieldError::new("terminationGracePeriodSeconds", message))
}

/// Returns an error for each container that has the name of an earlier one.
fn same_names(pod: &PodSpec) -> Vec<FieldError> {
    let init = pod
        .init_containers
        .iter()
        .flatten()
        .enumerate()
        .map(|(i, container)| (format!("initContainers[{i}].name"), container));
    let own = pod.containers.iter().enumerate().map(|(i, container)| (format!("containers[{i}].name"), container));
    let (mut names, mut errors) = (HashSet::new(), Vec::new());
    for (field, container) in init.chain(own) {
        let name = &container.name;
        if !names.insert(name) {
            let message = format!("two containers are called {name}: rename or remove one");
            errors.push(FieldError::new(field, message));
        }
    }
    errors
}

/// Returns the errors with their fields below a path.
fn below(path: &str, errors: Vec<FieldError>) -> impl Iterator<Item = FieldError> {
    let errors = errors.into_iter();
    errors.map(move |error| FieldError::new(joined(path, &error.field), error.message))
}

fn joined(path: &str, field: &str) -> String {
    match (path, field) {
        ("", one) | (one, "") => one.to_owned(),
        (path, field) => format!("{path}.{field}"),
    }
}
