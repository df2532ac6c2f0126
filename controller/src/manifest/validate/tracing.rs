//! `spec.tracing`, which configures the traces of servers that support OpenTelemetry.

use weir_crds::inference_service::Tracing;

use super::error_list::ErrorList;
use super::validated::Variant;
use crate::manifest::field_error::IgnoredField;
use crate::runtimes::BUILT_IN;

const FIELD: &str = "spec.tracing";

/// Checks the endpoint of traces, and reports a predictor that makes none.
pub(super) fn read(
    tracing: Option<&Tracing>,
    predictor: Option<&Variant>,
    errors: &mut ErrorList,
) -> Option<IgnoredField> {
    let endpoint = tracing?.exporter_endpoint.as_deref();
    if endpoint.is_some_and(|endpoint| !is_url(endpoint)) {
        let message = "must be an http:// or https:// URL, such as http://otel-collector:4317";
        errors.add(format!("{FIELD}.exporterEndpoint"), message);
    }
    let runtime = predictor.and_then(|predictor| predictor.runtime.as_ref());
    runtime.filter(|(name, _)| name == BUILT_IN).map(|(name, _)| IgnoredField {
        field: FIELD.to_owned(),
        reason: format!("the server of {name} makes no traces"),
    })
}

fn is_url(text: &str) -> bool {
    let schemes = ["http://", "https://"];
    let host = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
    host.is_some_and(|host| !host.starts_with(['/', '?', '#']) && !host.is_empty())
        && !text.contains(char::is_whitespace)
}
