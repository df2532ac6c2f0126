//! Labels and variables that KServe sets on every pod of an InferenceService, and on which other tools rely.

use k8s_openapi::api::core::v1::{EnvVar, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::ServiceName;

use crate::objects::COMPONENT;

/// Variable with the name of the service.
const NAME: &str = "INFERENCE_SERVICE_NAME";

/// Sets KServe's labels of a component's pods. They overwrite labels that users set, as in KServe. The label with the
/// service's name is set elsewhere, on all objects.
pub(super) fn label(metadata: &mut ObjectMeta, service: &ServiceName) {
    let labels = metadata.labels.get_or_insert_default();
    let app = format!("isvc.{}", service.component_name());
    for (key, value) in [("app", app), (COMPONENT, service.component().to_string())] {
        labels.insert(key.to_owned(), value);
    }
}

/// Passes the name of the service to every container.
pub(super) fn name_in(pod: &mut PodSpec, service: &ServiceName) {
    for container in &mut pod.containers {
        let variables = container.env.get_or_insert_default();
        if !variables.iter().any(|variable| variable.name == NAME) {
            variables.push(EnvVar { name: NAME.to_owned(), value: Some(service.name().to_owned()), value_from: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_container_knows_its_service() {
        let mut pod: PodSpec = serde_json::from_value(json!({ "containers": [
            { "name": "a" }, { "name": "b", "env": [{ "name": NAME, "value": "mine" }] }
        ] }))
        .unwrap();
        name_in(&mut pod, &ServiceName::new("vision", "digits").unwrap());
        let values = pod.containers.iter().map(|c| c.env.as_ref().unwrap()[0].value.as_deref());
        assert_eq!(values.collect::<Vec<_>>(), [Some("digits"), Some("mine")]);
    }

    #[test]
    fn kserves_labels_overwrite_the_pods() {
        let mut metadata =
            ObjectMeta { labels: Some([("app".to_owned(), "mine".to_owned())].into()), ..ObjectMeta::default() };
        label(&mut metadata, &ServiceName::new("vision", "digits").unwrap());
        let labels = metadata.labels.unwrap();
        assert_eq!((&*labels["app"], &*labels["component"]), ("isvc.digits-predictor", "predictor"));
    }
}
