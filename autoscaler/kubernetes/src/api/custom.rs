//! `custom.metrics.k8s.io`: metrics of pods and InferenceServices.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Query, State};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_cluster::{RevisionName, ServiceName};
use weir_cluster_kubernetes::revision_of;

use super::discovery::{SERVICES, group_version};
use super::external::SERVICE;
use super::failure::Failure;
use super::quantity;
use super::{CUSTOM, MetricsApi};
use crate::metric::{Metric, Share};
use crate::selector::fits;
use crate::window::WINDOW;

/// Name that means all objects that match the selector.
const ALL: &str = "*";

/// Selectors of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Selectors {
    label_selector: String,
    metric_label_selector: String,
}

/// Returns a metric of one pod, or of all pods that match the selector. Pods that are not ready have no value; the HPA
/// handles missing values itself.
pub(super) async fn of_pods(
    State(api): State<MetricsApi>,
    Path((namespace, name, metric)): Path<(String, String, String)>,
    Query(selectors): Query<Selectors>,
) -> Result<Json<Value>, Failure> {
    let metric = read(&metric, &selectors)?;
    let pods = pods(&api, &namespace, &selectors.label_selector).await?;
    let mut ready: BTreeMap<RevisionName, Vec<String>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| is_ready(pod)) {
        if let Some(revision) = revision_of(pod) {
            ready.entry(revision).or_default().push(pod.name_any());
        }
    }
    let mut items = Vec::new();
    for (revision, pods) in ready {
        let whole = metric.value(&api.loads.of_revision(&revision)?);
        let value = match metric.share() {
            Share::Same => whole,
            Share::Equal => whole / pods.len() as f64,
        };
        let asked = pods.iter().filter(|pod| name == ALL || name == **pod);
        items.extend(asked.map(|pod| {
            let pod = json!({ "kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": pod });
            item(&pod, metric, value)
        }));
    }
    if name != ALL && items.is_empty() {
        let text = format!("no pod {name:?} of an InferenceService is ready in {namespace:?}");
        return Err(Failure::NotFound(text));
    }
    Ok(Json(list(items)))
}

/// Returns a metric of an InferenceService, or of all that match the selector.
pub(super) async fn of_service(
    State(api): State<MetricsApi>,
    Path((namespace, resource, name, metric)): Path<(String, String, String, String)>,
    Query(selectors): Query<Selectors>,
) -> Result<Json<Value>, Failure> {
    let metric = read(&metric, &selectors)?;
    if resource != SERVICES {
        let text = format!("{resource:?} have no metrics here: use pods or {SERVICES}");
        return Err(Failure::NotFound(text));
    }
    let mut items = Vec::new();
    for service in services(&api, &namespace, &name, &selectors)? {
        let value = metric.value(&api.loads.of_service(&service)?);
        let described = json!({
            "kind": "InferenceService",
            "apiVersion": "serving.kserve.io/v1beta1",
            "namespace": namespace,
            "name": service.name(),
        });
        items.push(item(&described, metric, value));
    }
    Ok(Json(list(items)))
}

/// Returns the services of a request: the named one or, for the name [`ALL`], every service whose label [`SERVICE`]
/// matches the selector.
fn services(api: &MetricsApi, namespace: &str, name: &str, selectors: &Selectors) -> Result<Vec<ServiceName>, Failure> {
    if name != ALL {
        let service = ServiceName::new(namespace, name);
        let service = service.map_err(|error| Failure::Malformed(error.to_string()))?;
        return Ok(vec![service]);
    }
    let mut chosen = Vec::new();
    // The object has the load of its predictor: other components would be further entries of the same name.
    for service in api.loads.services(namespace).into_iter().filter(|service| *service == service.whole()) {
        let labels = [(SERVICE.to_owned(), service.name().to_owned())].into();
        if fits(&selectors.label_selector, &labels).map_err(Failure::Malformed)? {
            chosen.push(service);
        }
    }
    Ok(chosen)
}

fn read(metric: &str, selectors: &Selectors) -> Result<Metric, Failure> {
    let selector = &selectors.metric_label_selector;
    if !selector.is_empty() {
        let text = format!("these metrics have no labels: leave out the metric's selector {selector:?}");
        return Err(Failure::Malformed(text));
    }
    Metric::parse(metric).map_err(Failure::NotFound)
}

/// Lists the pods from the API server's cache, which is cheap. An HPA polls, so the delay of the cache does not matter.
async fn pods(api: &MetricsApi, namespace: &str, selector: &str) -> Result<Vec<Pod>, kube::Error> {
    let pods: Api<Pod> = Api::namespaced(api.client.clone(), namespace);
    let cached = ListParams::default().match_any().labels(selector);
    Ok(pods.list(&cached).await?.items)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.flatten();
    let is_ready = conditions.any(|c| c.type_ == "Ready" && c.status == "True");
    is_ready && pod.metadata.deletion_timestamp.is_none()
}

fn item(described: &Value, metric: Metric, value: f64) -> Value {
    json!({
        "describedObject": described,
        "metric": { "name": metric.name() },
        "timestamp": Time(Timestamp::now()),
        "windowSeconds": WINDOW.as_secs(),
        "value": quantity(value),
    })
}

fn list(items: Vec<Value>) -> Value {
    json!({
        "kind": "MetricValueList",
        "apiVersion": group_version(CUSTOM),
        "metadata": {},
        "items": items,
    })
}
