//! Check for storage that is not supported on Kubernetes. Pure.

use weir_cluster_kubernetes::check_storage_uri;
use weir_controller::{FieldError, STORAGE_URI, uri_of_store, uri_of_variable};
use weir_crds::inference_service::Predictor;
use weir_crds::{InferenceService, StorageContainer};

/// Returns an error for each storage URI of a service that is not supported on a cluster with these storage
/// containers, with what to write instead.
#[must_use]
pub fn storage_errors(service: &InferenceService, containers: &[StorageContainer]) -> Vec<FieldError> {
    let spec = &service.spec;
    let canaries = spec.canary.iter().enumerate().map(|(i, canary)| (format!("spec.canary[{i}]"), &canary.predictor));
    let stable = [("spec".to_owned(), &spec.predictor)];
    let predictors = stable.into_iter().chain(canaries);
    let each =
        predictors.flat_map(|(path, predictor)| of_predictor(&format!("{path}.predictor"), predictor, containers));
    each.collect()
}

fn of_predictor(path: &str, predictor: &Predictor, containers: &[StorageContainer]) -> Vec<FieldError> {
    if let Some(name) = &predictor.storage_container_name {
        let field = format!("{path}.storageContainerName");
        return missing(name, containers).map(|because| FieldError::new(field, because)).into_iter().collect();
    }
    let error = |field: String, uri: &str| Some(FieldError::new(field, check_storage_uri(uri, containers).err()?));
    let forms = predictor.frameworks();
    let errors = forms.filter_map(|(form, framework)| {
        let store = framework.storage.as_ref();
        match (&framework.storage_uri, store.and_then(uri_of_store)) {
            (Some(uri), _) => error(format!("{path}.{form}.storageUri"), uri),
            (None, uri) => error(format!("{path}.{form}.storage"), &uri?),
        }
    });
    let listed = predictor.storage_uris.iter().enumerate();
    let listed = listed.filter_map(|(i, listed)| error(format!("{path}.storageUris[{i}].uri"), &listed.uri));
    let by_variable = uri_of_variable(predictor).and_then(|uri| {
        let because = check_storage_uri(uri, containers).err()?;
        Some(FieldError::new(format!("{path}.containers"), format!("{STORAGE_URI}: {because}")))
    });
    errors.chain(listed).chain(by_variable).collect()
}

/// Returns why the ClusterStorageContainer of this name cannot fetch models; None if it can.
fn missing(name: &str, containers: &[StorageContainer]) -> Option<String> {
    let is_there = containers.iter().any(|container| container.name == name);
    let message =
        || format!("there is no enabled ClusterStorageContainer {name:?} for init containers: create it first");
    (!is_there).then(message)
}
