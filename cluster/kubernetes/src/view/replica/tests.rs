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
fn a_pod_that_was_ready_is_unready_and_not_starting() {
    let starts = seen(&running(), "False", None);
    assert_eq!(starts.phase, Phase::Starting);
    let ready = seen(&running(), "True", Some(&starts));
    let unready = seen(&running(), "False", Some(&ready));
    assert_eq!(unready.phase, Phase::Unready);
    assert_eq!(seen(&running(), "False", Some(&unready)).phase, Phase::Unready);
}

#[test]
fn a_pod_on_a_silent_node_is_unready_until_it_is_given_up() {
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
fn a_deleted_pod_terminates_even_if_it_is_ready() {
    let mut pod = pod(&running(), "True");
    pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(replica(&pod, None).phase, Phase::Terminating);
}

#[test]
fn a_deleted_pod_has_not_failed_when_its_process_ends() {
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
fn an_ended_pod_does_not_count_towards_the_desired_number() {
    let mut evicted = pod(&json!({}), "False");
    let status = evicted.status.as_mut().unwrap();
    status.phase = Some("Failed".to_owned());
    status.reason = Some("Evicted".to_owned());
    let replica = replica(&evicted, None);
    assert!(!replica.phase.is_counted());
    assert!(replica.failure.is_some());
}

#[test]
fn an_exit_is_reported_until_the_pod_is_ready_and_a_failed_start_until_it_starts() {
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

/// Observes one pod in these states, in order. Returns its phase, the reason of its failure and the failure after each.
fn followed(states: &[Value]) -> Vec<(Phase, Option<FailureReason>, Option<Failure>)> {
    let mut before: Option<Replica> = None;
    let each = states.iter().map(|state| {
        let replica = seen(state, "False", before.as_ref());
        before = Some(replica.clone());
        let reason = replica.failure.as_ref().map(|failure| failure.reason);
        (replica.phase, reason, replica.failure)
    });
    each.collect()
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({ "now": { "waiting": { "reason": reason, "message": message } } })
}

#[test]
fn an_image_that_cannot_be_pulled_has_one_cause_and_backs_off_with_the_kubelet() {
    let pulled = waiting("ErrImagePull", "failed to pull: x/y:1: not found");
    let waits = waiting("ImagePullBackOff", "Back-off pulling image \"x/y:1\"");
    let newer =
        waiting("ImagePullBackOff", "Back-off pulling image \"x/y:1\": ErrImagePull: failed to pull: x/y:1: not found");
    let creating = json!({ "now": { "waiting": { "reason": "ContainerCreating" } } });
    let all = followed(&[pulled.clone(), waits.clone(), pulled.clone(), newer, waits, creating, running()]);
    let phases: Vec<_> = all.iter().map(|(phase, ..)| *phase).collect();
    let (pending, held) = (Phase::Pending, Phase::BackOff);
    assert_eq!(phases, [pending, held, held, held, held, pending, Phase::Starting]);
    let first = all[0].2.clone().unwrap();
    assert!(first.message.contains("ImagePullBackOff (failed to pull: x/y:1: not found)"), "{first:?}");
    assert!(all[..5].iter().all(|(.., failure)| failure.as_ref() == Some(&first)), "{all:?}");
    assert_eq!(all[6].1, None);
}

#[test]
fn a_container_that_cannot_be_made_backs_off_at_once_and_one_that_is_pulled_first_does_not() {
    for (reason, expected) in [
        ("InvalidImageName", Phase::BackOff),
        ("ErrImageNeverPull", Phase::BackOff),
        ("CreateContainerConfigError", Phase::BackOff),
        ("ImagePullBackOff", Phase::BackOff),
        ("ErrImagePull", Phase::Pending),
        ("CreateContainerError", Phase::Pending),
        ("ContainerCreating", Phase::Pending),
    ] {
        assert_eq!(seen(&waiting(reason, ""), "False", None).phase, expected, "{reason}");
    }
}

#[test]
fn a_container_that_ends_again_and_again_has_one_reason_while_it_runs_and_while_it_waits() {
    let ended = |restarts: i32| json!({ "terminated": { "exitCode": 1, "reason": "Error" } , "restarts": restarts });
    let state = |restarts: i32, now: Value| json!({ "restarts": restarts, "now": now, "before": ended(restarts) });
    let crash = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    let all = followed(&[
        state(1, json!({ "running": {} })),
        state(1, crash.clone()),
        state(2, json!({ "running": {} })),
        state(2, ended(2)),
        state(2, crash),
        state(3, json!({ "running": {} })),
    ]);
    let reasons: Vec<_> = all.iter().map(|(_, reason, _)| reason.unwrap()).collect();
    let again = FailureReason::CrashLoopBackOff;
    assert_eq!(reasons, [FailureReason::Exited, again, again, again, again, again]);
}

#[test]
fn a_download_that_failed_twice_backs_off_until_it_runs_again() {
    let pod = |restarts: i32, state: &Value| -> Pod {
        let mut pod = pod(&json!({ "now": { "waiting": { "reason": "PodInitializing" } } }), "False");
        let status = json!([{
            "name": "storage-initializer", "image": "", "imageID": "", "ready": false, "restartCount": restarts,
            "state": state, "lastState": { "terminated": { "exitCode": 1 } },
        }]);
        pod.status.as_mut().unwrap().init_container_statuses = serde_json::from_value(status).unwrap();
        pod
    };
    let failed = json!({ "terminated": { "exitCode": 1 } });
    let crash = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    let runs = json!({ "running": {} });
    for (restarts, state, expected) in [
        (0, &failed, Phase::Pending),
        (1, &runs, Phase::Pending),
        (1, &failed, Phase::BackOff),
        (1, &crash, Phase::BackOff),
        (2, &runs, Phase::Pending),
        (2, &crash, Phase::BackOff),
    ] {
        let replica = replica(&pod(restarts, state), None);
        assert_eq!(replica.phase, expected, "{restarts} {state}");
        assert_eq!(weir_cluster::Outlook::of(&[replica]) == weir_cluster::Outlook::Fails, expected == Phase::BackOff);
    }
}

#[test]
fn a_program_that_was_killed_for_its_memory_ended_by_itself() {
    let state = json!({
        "restarts": 1, "now": { "running": {} },
        "before": { "terminated": { "exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:10Z" } },
    });
    let exit = seen(&state, "True", None).last_exit.unwrap();
    assert_eq!((exit.reason, exit.exit_code, exit.at), (FailureReason::OutOfMemory, Some(137), Some(1_767_225_610)));
    assert!(exit.may_be_caused_by_request());
}
