//! Discovery documents of the metrics APIs.

use axum::Json;
use serde_json::{Value, json};

use super::{CUSTOM, EXTERNAL};
use crate::metric::Metric;

/// Resource of InferenceServices, which have metrics like pods.
pub(super) const SERVICES: &str = "inferenceservices.serving.kserve.io";

/// Lists the metrics of pods and InferenceServices.
pub(super) async fn custom() -> Json<Value> {
    let of = |resource: &str| Metric::ALL.map(|metric| format!("{resource}/{}", metric.name()));
    let names = ["pods", SERVICES].into_iter().flat_map(of);
    Json(list(CUSTOM, "MetricValueList", names))
}

/// Lists the metrics of services by label.
pub(super) async fn external() -> Json<Value> {
    let names = Metric::ALL.map(|metric| metric.name().to_owned());
    Json(list(EXTERNAL, "ExternalMetricValueList", names.into_iter()))
}

/// Returns the group and version in an API's path.
pub(super) fn group_version(path: &str) -> &str {
    path.trim_start_matches("/apis/")
}

fn list(path: &str, kind: &str, names: impl Iterator<Item = String>) -> Value {
    let resource =
        |name: String| json!({ "name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"] });
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version(path),
        "resources": names.map(resource).collect::<Vec<_>>(),
    })
}
