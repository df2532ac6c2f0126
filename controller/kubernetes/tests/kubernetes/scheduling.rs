//! Services on nodes with GPUs, placed by the real scheduler. The status of a service reports what prevents it, and the
//! service recovers.

mod devices;
mod limits;
mod priorities;

use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::world::{World, condition};

impl World {
    /// Creates a cluster-scoped object, unless it exists.
    async fn make(&self, object: Value) {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = version.rsplit_once('/').unwrap_or(("", &version));
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let objects: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
        let object = serde_json::from_value(object).unwrap();
        match objects.create(&PostParams::default(), &object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the namespace's pods with this label, as JSON.
    async fn pods(&self, label: &str) -> Vec<Value> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        let pods: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &kind);
        let found = pods.list(&ListParams::default().labels(label)).await.unwrap();
        let living = found.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        living.map(|pod| json!({"name": pod.name_any(), "uid": pod.metadata.uid, "spec": pod.data["spec"], "status": pod.data["status"]}))
            .collect()
    }

    /// Waits until a service is not ready, with these words in its message.
    async fn until_not_ready(&self, name: &str, words: &[&str]) -> Value {
        self.until(name, &words.join(", "), |object| {
            let ready = condition(object, "PredictorReady");
            let message = ready["message"].as_str().unwrap_or_default();
            ready["status"] != "True" && words.iter().all(|word| message.contains(word))
        })
        .await
    }
}

/// Returns a service whose container requests these resources, with further fields of its predictor.
fn asking(name: &str, resources: &Value, more: &Value) -> Value {
    let mut service = crate::world::service(name, "", more.clone());
    service["spec"]["predictor"]["model"]["resources"] = resources.clone();
    service
}

/// Returns the label of a service's pods.
fn of(service: &str) -> String {
    format!("serving.kserve.io/inferenceservice={service}")
}
