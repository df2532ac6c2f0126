//! Check for storage that is not supported on Kubernetes. Pure.

use weir_cluster_kubernetes::check_storage_uri;
use weir_controller::{FieldError, STORAGE_URI, uri_of_variable};
use weir_crds::InferenceService;
use weir_crds::inference_service::Predictor;

/// Returns an error for each storage URI of a service that is not supported, with what to write instead.
pub(super) fn storage_errors(service: &InferenceService) -> Vec<FieldError> {
    let spec = &service.spec;
    let canaries = spec.canary.iter().enumerate().map(|(i, canary)| (format!("spec.canary[{i}]"), &canary.predictor));
    let stable = [("spec".to_owned(), &spec.predictor)];
    let predictors = stable.into_iter().chain(canaries);
    predictors.flat_map(|(path, predictor)| of_predictor(&format!("{path}.predictor"), predictor)).collect()
}

fn of_predictor(path: &str, predictor: &Predictor) -> Vec<FieldError> {
    let forms = predictor.frameworks();
    let errors = forms.filter_map(|(form, framework)| {
        let because = check_storage_uri(framework.storage_uri.as_deref()?).err()?;
        Some(FieldError::new(format!("{path}.{form}.storageUri"), because))
    });
    let listed = predictor.storage_uris.iter().enumerate();
    let listed = listed.filter_map(|(i, listed)| {
        let because = check_storage_uri(&listed.uri).err()?;
        Some(FieldError::new(format!("{path}.storageUris[{i}].uri"), because))
    });
    errors.chain(listed).chain(of_variable(path, predictor)).collect()
}

/// Checks the URI in the variable of a service's own container.
fn of_variable(path: &str, predictor: &Predictor) -> Option<FieldError> {
    let because = check_storage_uri(uri_of_variable(predictor)?).err()?;
    let message = format!("{STORAGE_URI}: {because}");
    Some(FieldError::new(format!("{path}.containers"), message))
}
