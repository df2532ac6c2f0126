//! `external.metrics.k8s.io`: metrics of InferenceServices, chosen by label.

use axum::Json;
use axum::extract::{Path, Query, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::discovery::group_version;
use super::failure::Failure;
use super::{EXTERNAL, MetricsApi};
use crate::metric::Metric;
use crate::quantity::quantity;
use crate::selector::fits;
use crate::window::WINDOW;

/// Label by which a service is chosen, KServe's.
pub(super) const SERVICE: &str = "serving.kserve.io/inferenceservice";

/// The selector of a question.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Selection {
    label_selector: String,
}

/// A metric of the services of a namespace that the selector fits. An HPA adds them up.
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
        let text = format!("no InferenceService in {namespace:?} fits the selector {selector:?}: write {SERVICE}=NAME");
        return Err(Failure::NotFound(text));
    }
    Ok(Json(json!({
        "kind": "ExternalMetricValueList",
        "apiVersion": group_version(EXTERNAL),
        "metadata": {},
        "items": items,
    })))
}
