//! The trigger of a ScaledObject. This module is pure.

use std::collections::HashMap;

use weir_cluster::ServiceName;

use crate::metric::Metric;

/// A trigger with defaults for missing fields.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trigger {
    pub(super) service: ServiceName,
    pub(super) metric: Metric,
    /// Target value of the metric, above 0.
    pub(super) target: f64,
}

/// Key of the service's name; the default is the ScaledObject's own name.
const SERVICE: &str = "service";
/// Key of the metric's name; the default is the number of pending requests.
const METRIC: &str = "metric";
/// Key of the target, a number; required.
const TARGET: &str = "target";

impl Trigger {
    /// Reads a trigger's metadata. The service must be in the ScaledObject's own namespace, so that a trigger cannot
    /// read the load of other namespaces.
    ///
    /// # Errors
    /// A sentence that says what to write.
    pub(super) fn read(name: &str, namespace: &str, metadata: &HashMap<String, String>) -> Result<Self, String> {
        let service = metadata.get(SERVICE).map_or(name, String::as_str);
        let service = ServiceName::new(namespace, service).map_err(|e| e.to_string())?;
        let metric = metadata.get(METRIC).map(|name| Metric::parse(name));
        let metric = metric.transpose().map_err(|error| format!("metadata.{METRIC}: {error}"))?;
        Ok(Self { service, metric: metric.unwrap_or(Metric::PendingRequests), target: target(metadata.get(TARGET))? })
    }
}

fn target(written: Option<&String>) -> Result<f64, String> {
    let Some(text) = written else {
        return Err(format!(
            "metadata.{TARGET} is missing: write the metric's value at which the number of pods is right, such as \"5\""
        ));
    };
    let number = text.trim().parse().ok();
    number
        .filter(|target: &f64| target.is_finite() && *target > 0.0)
        .ok_or_else(|| format!("metadata.{TARGET}: {text:?} is not a number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(metadata: &[(&str, &str)]) -> Result<Trigger, String> {
        let metadata = metadata.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Trigger::read("digits", "team", &metadata.collect())
    }

    #[test]
    fn missing_fields_have_defaults() {
        let trigger = read(&[("target", "5")]).unwrap();
        assert_eq!(trigger.service, ServiceName::new("team", "digits").unwrap());
        assert_eq!((trigger.metric, trigger.target), (Metric::PendingRequests, 5.0));
        let named = [
            ("target", "0.5"),
            ("service", "echo"),
            ("metric", "weir_queue_delay_seconds"),
            ("scalerAddress", "weir-autoscaler.weir-system:9090"),
        ];
        let trigger = read(&named).unwrap();
        assert_eq!((trigger.service.name(), trigger.metric), ("echo", Metric::QueueDelay));
    }

    #[test]
    fn invalid_metadata_is_reported() {
        let wrong: [(&[(&str, &str)], &str); 4] = [
            (&[], "metadata.target is missing"),
            (&[("target", "many")], "metadata.target: \"many\" is not a number above 0"),
            (&[("target", "-1")], "is not a number above 0"),
            (
                &[("target", "1"), ("metric", "nv_inference_pending_request")],
                "did you mean nv_inference_pending_request_count?",
            ),
        ];
        for (metadata, expected) in wrong {
            let refused = read(metadata).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
