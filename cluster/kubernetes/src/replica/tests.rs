use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use weir_cluster::{Phase, Replica};

use super::*;

/// Returns a pod whose container has this state, with this condition `Ready`.
fn pod(state: &Value, is_ready: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "digits-1", "namespace": "vision" },
        "spec": { "containers": [
            { "name": "proxy" },
            { "name": "kserve-container", "ports": [
                { "name": "http", "containerPort": 8000 }, { "name": "grpc", "containerPort": 8001 }
            ] },
        ] },
        "status": {
            "podIP": "10.0.0.7",
            "conditions": [{ "type": "Ready", "status": is_ready }],
            "containerStatuses": [{
                "name": "kserve-container", "image": "", "imageID": "", "ready": false,
                "restartCount": state["restarts"].as_i64().unwrap_or(0),
                "state": state["now"], "lastState": state["before"],
            }],
        },
    }))
    .unwrap()
}

fn running() -> Value {
    json!({ "now": { "running": {} } })
}

fn seen(state: &Value, is_ready: &str, before: Option<&Replica>) -> Replica {
    replica(&pod(state, is_ready), before)
}

#[test]
fn a_ready_pod_has_the_addresses_of_the_container_that_serves() {
    let replica = seen(&running(), "True", None);
    assert_eq!(replica.phase, Phase::Ready);
    let address = |address: Option<Address>| address.unwrap().to_string();
    assert_eq!(address(replica.endpoints.http), "10.0.0.7:8000");
    assert_eq!(address(replica.endpoints.grpc), "10.0.0.7:8001");
}

#[test]
fn one_that_was_ready_is_unready_and_not_starting() {
    let starts = seen(&running(), "False", None);
    assert_eq!(starts.phase, Phase::Starting);
    let ready = seen(&running(), "True", Some(&starts));
    let unready = seen(&running(), "False", Some(&ready));
    assert_eq!(unready.phase, Phase::Unready);
    assert_eq!(seen(&running(), "False", Some(&unready)).phase, Phase::Unready);
}

#[test]
fn one_whose_node_is_silent_is_unready_until_it_is_given_up() {
    let mut pod = pod(&running(), "False");
    let ready = json!([
        { "type": "Ready", "status": "False" }, { "type": "ContainersReady", "status": "True" },
    ]);
    pod.status.as_mut().unwrap().conditions = serde_json::from_value(ready).unwrap();
    pod.spec.as_mut().unwrap().node_name = Some("gpu-1".to_owned());
    // A controller that starts only now still concludes that the pod was ready.
    let silent = replica(&pod, None);
    assert_eq!(silent.phase, Phase::Unready);
    let reason = silent.failure.as_ref().map(|failure| failure.reason);
    assert_eq!(reason, Some(FailureReason::NodeNotReady));
    let answers = seen(&running(), "False", Some(&silent));
    assert_eq!((answers.phase, answers.failure), (Phase::Unready, None));
    pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(replica(&pod, Some(&silent)).failure, None);
}

#[test]
fn one_that_is_deleted_terminates_though_it_is_ready() {
    let mut pod = pod(&running(), "True");
    pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(replica(&pod, None).phase, Phase::Terminating);
}

#[test]
fn one_that_is_deleted_has_not_failed_when_its_process_ends() {
    let mut pod = pod(&json!({ "now": { "terminated": { "exitCode": 0 } } }), "False");
    pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(replica(&pod, None).failure, None);
}

#[test]
fn a_container_that_is_being_made_has_not_failed() {
    let state = json!({ "now": { "waiting": { "reason": "ContainerCreating" } } });
    let replica = seen(&state, "False", None);
    assert_eq!((replica.phase, replica.failure), (Phase::Pending, None));
}

#[test]
fn a_pod_that_has_ended_takes_no_place() {
    let mut evicted = pod(&json!({}), "False");
    let status = evicted.status.as_mut().unwrap();
    status.phase = Some("Failed".to_owned());
    status.reason = Some("Evicted".to_owned());
    let replica = replica(&evicted, None);
    assert!(!replica.phase.is_counted());
    assert!(replica.failure.is_some());
}

#[test]
fn the_end_of_a_start_is_told_until_it_is_ready_and_what_kept_it_from_one_until_it_starts() {
    let image = json!({ "now": { "waiting": { "reason": "ErrImagePull" } } });
    let unstarted = seen(&image, "False", None);
    assert!(unstarted.failure.is_some());
    assert_eq!(seen(&running(), "False", Some(&unstarted)).failure, None);
    let crash = json!({ "now": { "terminated": { "exitCode": 3 } } });
    let ended = seen(&crash, "False", None);
    let starts = seen(&running(), "False", Some(&ended));
    assert_eq!(starts.failure, ended.failure);
    assert!(starts.failure.is_some());
    assert_eq!(seen(&running(), "True", Some(&starts)).failure, None);
}
