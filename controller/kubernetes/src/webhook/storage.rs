//! Check for storage that is not supported on Kubernetes. Pure.

use weir_cluster_kubernetes::check_storage_uri;
use weir_controller::{FieldError, STORAGE_URI, uri_of_store, uri_of_variable};
use weir_crds::inference_service::Predictor;
use weir_crds::{InferenceService, StorageContainer};

/// Returns an error for each storage URI of a service that is not supported on a cluster with these storage
/// containers, with what to write instead.
#[must_use]
pub fn storage_errors(service: &InferenceService, containers: &[StorageContainer]) -> Vec<FieldError> {
    predictors(service).flat_map(|(path, predictor)| of_predictor(&path, predictor, containers)).collect()
}

/// A storage URI of a service, and the field that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageUri {
    /// Path of the field, such as `spec.predictor.model.storageUri`.
    pub field: String,
    /// Variable of the field's containers with the URI; None if the field itself is the URI.
    pub variable: Option<&'static str>,
    /// The URI as written, or that of the store which `model.storage` names.
    pub uri: String,
}

/// Returns every storage URI of a service and its canaries.
#[must_use]
pub fn storage_uris(service: &InferenceService) -> Vec<StorageUri> {
    predictors(service).flat_map(|(path, predictor)| uris(&path, predictor)).collect()
}

fn predictors(service: &InferenceService) -> impl Iterator<Item = (String, &Predictor)> {
    let spec = &service.spec;
    let canaries = spec.canary.iter().enumerate();
    let canaries = canaries.map(|(i, canary)| (format!("spec.canary[{i}].predictor"), &canary.predictor));
    [("spec.predictor".to_owned(), &spec.predictor)].into_iter().chain(canaries)
}

fn of_predictor(path: &str, predictor: &Predictor, containers: &[StorageContainer]) -> Vec<FieldError> {
    if let Some(name) = &predictor.storage_container_name {
        let field = format!("{path}.storageContainerName");
        return missing(name, containers).map(|because| FieldError::new(field, because)).into_iter().collect();
    }
    let error = |storage: StorageUri| {
        let because = check_storage_uri(&storage.uri, containers).err()?;
        Some(FieldError::new(storage.field.clone(), storage.message(&because)))
    };
    uris(path, predictor).into_iter().filter_map(error).collect()
}

fn uris(path: &str, predictor: &Predictor) -> Vec<StorageUri> {
    let at = |field: String, uri: String| StorageUri { field, variable: None, uri };
    let of_models = predictor.frameworks().filter_map(|(form, framework)| {
        let store = framework.storage.as_ref();
        match (&framework.storage_uri, store.and_then(uri_of_store)) {
            (Some(uri), _) => Some(at(format!("{path}.{form}.storageUri"), uri.clone())),
            (None, uri) => Some(at(format!("{path}.{form}.storage"), uri?)),
        }
    });
    let listed = predictor.storage_uris.iter().enumerate();
    let listed = listed.map(|(i, listed)| at(format!("{path}.storageUris[{i}].uri"), listed.uri.clone()));
    let by_variable = uri_of_variable(predictor).map(|uri| StorageUri {
        field: format!("{path}.containers"),
        variable: Some(STORAGE_URI),
        uri: uri.to_owned(),
    });
    of_models.chain(listed).chain(by_variable).collect()
}

impl StorageUri {
    /// Returns a message about the URI, with the name of its variable.
    #[must_use]
    pub fn message(&self, because: &str) -> String {
        match self.variable {
            Some(variable) => format!("{variable}: {because}"),
            None => because.to_owned(),
        }
    }
}

/// Returns why the ClusterStorageContainer of this name cannot fetch models; None if it can.
fn missing(name: &str, containers: &[StorageContainer]) -> Option<String> {
    let is_there = containers.iter().any(|container| container.name == name);
    let message =
        || format!("there is no enabled ClusterStorageContainer {name:?} for init containers: create it first");
    (!is_there).then(message)
}
