//! Pause before a server receives SIGTERM, so that gateways learn of the termination and send no more requests.

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, PodSpec, SleepAction};

use super::weir_runtime;
use crate::entry::entry;

/// Length of the pause in seconds. Endpoint updates take up to a second, and a few seconds on a busy control plane.
const PAUSE: i64 = 5;

/// Grace period in seconds of a pod that sets none, Kubernetes' default. The period includes the preStop hook.
const GRACE: i64 = 30;

/// Adds a preStop pause to containers that have no preStop hook. No pause is added where Weir's own runtime receives
/// the requests, because it finishes requests that arrive late.
pub(super) fn pause(pod: &mut PodSpec) {
    let grace = pod.termination_grace_period_seconds.unwrap_or(GRACE);
    // The API server refuses a pause that does not fit into the grace period, and the server needs the rest of that
    // period to stop.
    let seconds = PAUSE.min(grace / 2);
    let is_ours = entry(pod).is_some_and(weir_runtime::is_ours);
    if seconds < 1 || is_ours {
        return;
    }
    for container in &mut pod.containers {
        add(container, seconds);
    }
}

fn add(container: &mut Container, seconds: i64) {
    let lifecycle = container.lifecycle.get_or_insert_default();
    lifecycle.pre_stop.get_or_insert_with(|| LifecycleHandler {
        sleep: Some(SleepAction { seconds }),
        ..LifecycleHandler::default()
    });
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pre_stop(image: &str, grace: Option<i64>, own: &Value) -> Value {
        let mut pod: PodSpec = serde_json::from_value(json!({
            "containers": [{ "name": "a", "image": image, "lifecycle": own }],
            "terminationGracePeriodSeconds": grace,
        }))
        .unwrap();
        pause(&mut pod);
        json!(pod.containers[0].lifecycle)["preStop"].clone()
    }

    #[test]
    fn other_servers_pause_before_they_stop() {
        let pause = |seconds: i64| json!({ "sleep": { "seconds": seconds } });
        assert_eq!(pre_stop("example/server", None, &Value::Null), pause(5));
        assert_eq!(pre_stop("example/server", Some(4), &Value::Null), pause(2));
        assert_eq!(pre_stop("example/server", Some(0), &Value::Null), Value::Null);
        assert_eq!(pre_stop("weir-runtime:1", None, &Value::Null), Value::Null);
    }

    #[test]
    fn a_transformer_and_the_runtime_behind_it_pause() {
        let mut pod: PodSpec = serde_json::from_value(json!({ "containers": [
            { "name": "kserve-container", "image": "weir-runtime:1" },
            { "name": "transformer-container", "image": "example/transformer" },
        ] }))
        .unwrap();
        pause(&mut pod);
        assert!(pod.containers.iter().all(|c| c.lifecycle.is_some()));
    }

    #[test]
    fn a_pre_stop_hook_of_the_pod_is_kept() {
        let own = json!({ "exec": { "command": ["drain"] } });
        let lifecycle = json!({ "preStop": own });
        assert_eq!(pre_stop("example/server", None, &lifecycle), own);
    }
}
