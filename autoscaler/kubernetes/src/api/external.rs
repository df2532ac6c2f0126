//! `external.metrics.k8s.io`: metrics of InferenceServices, selected by label.

use axum::Json;
use axum::extract::{Path, Query, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::{Value, json};

use super::discovery::group_version;
use super::failure::Failure;
use super::quantity;
use super::{EXTERNAL, MetricsApi};
use crate::metric::Metric;
use crate::selector::fits;
use crate::window::WINDOW;

/// KServe's label by which a service is selected.
pub(super) const SERVICE: &str = "serving.kserve.io/inferenceservice";

/// Selector of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Selection {
    label_selector: String,
}

/// Returns a metric of the services of a namespace that match the selector. An HPA sums the values.
pub(super) async fn of_services(
    State(api): State<MetricsApi>,
    Path((namespace, metric)): Path<(String, String)>,
    Query(selection): Query<Selection>,
) -> Result<Json<Value>, Failure> {
    let metric = Metric::parse(&metric).map_err(Failure::NotFound)?;
    let mut items = Vec::new();
    for service in api.loads.services(&namespace) {
        let labels = [(SERVICE.to_owned(), service.name().to_owned())].into();
        if !fits(&selection.label_selector, &labels).map_err(Failure::Malformed)? {
            continue;
        }
        let value = metric.value(&api.loads.of_service(&service)?);
        items.push(json!({
            "metricName": metric.name(),
            "metricLabels": labels,
            "timestamp": Time(Timestamp::now()),
            "window": WINDOW.as_secs(),
            "value": quantity(value),
        }));
    }
    if items.is_empty() {
        let selector = &selection.label_selector;
        let text =
            format!("no InferenceService in {namespace:?} matches the selector {selector:?}: write {SERVICE}=NAME");
        return Err(Failure::NotFound(text));
    }
    Ok(Json(json!({
        "kind": "ExternalMetricValueList",
        "apiVersion": group_version(EXTERNAL),
        "metadata": {},
        "items": items,
    })))
}
