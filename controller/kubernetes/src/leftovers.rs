//! Leftovers in a status of the controller that managed the service before, such as KServe's. Server-side apply never
//! removes fields of another field manager, so they would remain for ever. Pure.

use serde_json::{Map, Value};

/// List of conditions, to which other controllers may add their own.
const CONDITIONS: &str = "conditions";

/// Annotations that other controllers keep in a status, and that Weir leaves alone.
const ANNOTATIONS: &str = "annotations";

/// Conditions that KServe sets and Weir does not, or only for a service with that component.
const OF_KSERVE: [&str; 11] = [
    "ExplainerConfigurationReady",
    "ExplainerReady",
    "ExplainerRoutesReady",
    "LatestDeploymentReady",
    "OciImageVolumeCompatible",
    "PredictorConfigurationReady",
    "PredictorRouteReady",
    "RoutesReady",
    "TransformerConfigurationReady",
    "TransformerReady",
    "TransformerRouteReady",
];

/// Returns the merge patch that removes the leftovers from a stored status; None if there are none.
pub(crate) fn removal(stored: &Value, applied: &Value) -> Option<Value> {
    let (stored, applied) = (stored.as_object()?, applied.as_object()?);
    let mut removal = Map::new();
    for (name, value) in stored {
        let change = match (&**name, applied.get(name)) {
            (ANNOTATIONS, _) => None,
            (CONDITIONS, own) => without_kserves(value, own),
            (_, Some(own)) => self::removal(value, own),
            (_, None) => Some(Value::Null).filter(|_| !value.is_null()),
        };
        removal.extend(change.map(|change| (name.clone(), change)));
    }
    (!removal.is_empty()).then_some(Value::Object(removal))
}

/// Returns the conditions without KServe's; None if there are none of KServe's. Conditions that Weir has applied stay.
fn without_kserves(conditions: &Value, applied: Option<&Value>) -> Option<Value> {
    let conditions = conditions.as_array()?;
    let own: Vec<_> = applied.and_then(Value::as_array).into_iter().flatten().collect();
    let is_kserves = |one: &&Value| {
        let kind = one["type"].as_str();
        let is_own = own.iter().any(|own| own["type"] == one["type"]);
        !is_own && kind.is_some_and(|kind| OF_KSERVE.contains(&kind))
    };
    let (left, kept): (Vec<_>, Vec<_>) = conditions.iter().partition(is_kserves);
    (!left.is_empty()).then(|| kept.into_iter().cloned().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kserves_leftovers_are_removed_and_others_are_kept() {
        let ours = json!({
            "url": "http://digits",
            "conditions": [{"type": "Ready", "status": "True"}],
            "components": {"predictor": {"latestReadyRevision": "digits-predictor-00001"}},
            "modelStatus": {"transitionStatus": "UpToDate", "copies": {"failedCopies": 0}},
        });
        let ready = json!({"type": "Ready", "status": "True"});
        let approved = json!({"type": "example.com/Approved", "status": "True"});
        let mut stored = ours.clone();
        assert_eq!(removal(&stored, &ours), None);
        stored["conditions"] = json!([ready.clone(), approved.clone()]);
        stored["annotations"] = json!({"team": "vision"});
        stored["servingRuntimeName"] = Value::Null;
        assert_eq!(removal(&stored, &ours), None, "conditions of others");
        let old = json!({"type": "LatestDeploymentReady", "status": "False"});
        stored["conditions"] = json!([old, ready.clone(), approved.clone()]);
        stored["components"]["transformer"] = json!({"url": "http://x"});
        stored["components"]["predictor"]["grpcUrl"] = "http://y".into();
        stored["modelStatus"]["lastFailureInfo"] = json!({"reason": "ModelLoadFailed"});
        let expected = json!({
            "conditions": [ready, approved],
            "components": {"transformer": null, "predictor": {"grpcUrl": null}},
            "modelStatus": {"lastFailureInfo": null},
        });
        assert_eq!(removal(&stored, &ours), Some(expected));
    }

    #[test]
    fn a_malformed_status_is_left_to_the_next_write() {
        for stored in [json!(null), json!("text"), json!([])] {
            assert_eq!(removal(&stored, &json!({})), None);
        }
        assert_eq!(removal(&json!({"conditions": 3}), &json!({})), None);
    }
}
