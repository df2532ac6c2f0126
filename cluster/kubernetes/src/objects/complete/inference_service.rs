//! What KServe writes on every pod of an InferenceService, and others look for.

use k8s_openapi::api::core::v1::{EnvVar, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::ServiceName;

/// Variable with the name of the service.
const NAME: &str = "INFERENCE_SERVICE_NAME";

/// Sets KServe's labels of a predictor's pods, over those that people write, as KServe does. That with the service's name
/// is every object's.
pub(super) fn label(metadata: &mut ObjectMeta, service: &ServiceName) {
    let labels = metadata.labels.get_or_insert_default();
    let app = format!("isvc.{}-predictor", service.name());
    for (key, value) in [("app", app), ("component", "predictor".to_owned())] {
        labels.insert(key.to_owned(), value);
    }
}

/// Tells every container the name of its service.
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
    fn kserves_labels_come_first() {
        let mut metadata =
            ObjectMeta { labels: Some([("app".to_owned(), "mine".to_owned())].into()), ..ObjectMeta::default() };
        label(&mut metadata, &ServiceName::new("vision", "digits").unwrap());
        let labels = metadata.labels.unwrap();
        assert_eq!((&*labels["app"], &*labels["component"]), ("isvc.digits-predictor", "predictor"));
    }
}
