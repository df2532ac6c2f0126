//! Failures of pods, from statuses as the API server reports them.

use serde_json::{Value, json};
use weir_cluster::FailureReason as R;

use super::*;
use crate::view::replica::Overdue;

/// Returns a pod with this status.
fn pod(status: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "digits-predictor-00001-abc", "namespace": "vision" },
        "spec": {
            "containers": [{
                "name": "kserve-container", "image": "example/server:1",
                "resources": { "limits": { "memory": "512Mi" } },
            }],
            "initContainers": [{ "name": "storage-initializer", "image": "weir:1" }],
            "resourceClaims": [{ "name": "gpu", "resourceClaimTemplateName": "one-gpu" }],
        },
        "status": status,
    }))
    .unwrap()
}

fn condition(reason: &str, message: &str) -> Value {
    json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
    }] })
}

fn container(name: &str, state: &Value, last: &Value) -> Value {
    json!({
        "name": name, "image": "example/server:1", "imageID": "", "ready": false, "restartCount": 1,
        "state": state, "lastState": last,
    })
}

fn serving(state: &Value, last: &Value) -> Value {
    json!({
        "phase": "Running",
        "conditions": [{ "type": "PodScheduled", "status": "True" }],
        "containerStatuses": [container("kserve-container", state, last)],
    })
}

fn first(name: &str, state: &Value) -> Value {
    json!({
        "phase": "Pending",
        "conditions": [{ "type": "PodScheduled", "status": "True" }],
        "initContainerStatuses": [container(name, state, &json!({}))],
        "containerStatuses": [container(
            "kserve-container", &json!({ "waiting": { "reason": "PodInitializing" } }), &json!({})
        )],
    })
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({ "waiting": { "reason": reason, "message": message } })
}

fn terminated(code: i32, reason: &str, message: &str) -> Value {
    json!({ "terminated": { "exitCode": code, "reason": reason, "message": message } })
}

/// Asserts the failure that is reported for a pod with this status.
#[track_caller]
fn assert_failure(status: &Value, reason: R, sentence: &str) {
    let failure = failure(&pod(status)).unwrap();
    assert_eq!((failure.reason, &*failure.message), (reason, sentence));
}

#[test]
fn a_pod_without_a_node_says_what_to_do() {
    for (status, reason, sentence) in [
        (
            condition(
                "Unschedulable",
                "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No \
                 preemption victims found for incoming pods.",
            ),
            R::NotStarted,
            "no node takes it (0/3 nodes are available: 3 Insufficient nvidia.com/gpu): add a node, free that resource, \
             or request less",
        ),
        (
            condition(
                "Unschedulable",
                r#"0/3 nodes are available: persistentvolumeclaim "weir-examples" not found. not found"#,
            ),
            R::NotStarted,
            r#"no node takes it (0/3 nodes are available: persistentvolumeclaim "weir-examples" not found. not found): create that PersistentVolumeClaim, or correct the storageUri"#,
        ),
        (
            condition("Unschedulable", "0/1 nodes are available: 1 node(s) had untolerated taint(s)"),
            R::NotStarted,
            "no node takes it (0/1 nodes are available: 1 node(s) had untolerated taint(s)): add a toleration of that \
             taint, or a node without it; a node that is not ready has such a taint, too",
        ),
        (
            condition("Unschedulable", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."),
            R::NotStarted,
            "no node takes it (0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector): label a \
             node as nodeSelector and affinity require, or change them",
        ),
        (
            condition("Unschedulable", "0/3 nodes are available: 3 cannot allocate all claims."),
            R::NotStarted,
            "no node takes it (0/3 nodes are available: 3 cannot allocate all claims): no node has such a device free: \
             wait, free one, or change the ResourceClaim",
        ),
    ] {
        assert_failure(&status, reason, sentence);
    }
}

#[test]
fn a_pod_whose_nodes_are_cordoned_or_not_ready_says_so() {
    for (status, reason, sentence) in [
        (
            condition(
                "Unschedulable",
                "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s). no new claims to \
                 deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            ),
            R::NotStarted,
            "no node takes it (0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s)): \
             a node is cordoned: `kubectl uncordon` it once it may be used again, or add one",
        ),
        (
            condition(
                "Unschedulable",
                "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.",
            ),
            R::NotStarted,
            "no node takes it (0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }): \
             a node is not ready or short of something, as its taint says: repair it, or add one",
        ),
    ] {
        assert_failure(&status, reason, sentence);
    }
}

#[test]
fn a_pod_that_is_not_scheduled_yet_says_what_it_waits_for() {
    for (status, reason, sentence) in [
        (
            condition("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"),
            R::NotStarted,
            "its scheduling gates are closed: a queue such as Kueue's opens them",
        ),
        (
            json!({ "phase": "Pending" }),
            R::NotStarted,
            r#"it waits for its resource claims: create the ResourceClaimTemplate "one-gpu""#,
        ),
    ] {
        assert_failure(&status, reason, sentence);
    }
}

#[test]
fn a_container_that_cannot_be_made_says_what_to_do() {
    let none = json!({});
    for (status, reason, sentence) in [
        (
            serving(&waiting("ImagePullBackOff", r#"Back-off pulling image "example/server:1""#), &none),
            R::NotStarted,
            r#"the image "example/server:1" cannot be pulled, ImagePullBackOff (Back-off pulling image "example/server:1"): correct its name and tag, or name a Secret for its registry in imagePullSecrets"#,
        ),
        (
            serving(&waiting("CreateContainerConfigError", r#"secret "key" not found"#), &none),
            R::NotStarted,
            r#"the container kserve-container cannot be made, CreateContainerConfigError (secret "key" not found): create that Secret"#,
        ),
        (
            serving(
                &waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
                &none,
            ),
            R::NotStarted,
            "the container kserve-container cannot be made, CreateContainerConfigError (container has runAsNonRoot and \
             image will run as root): choose an image with another user, or write securityContext.runAsUser",
        ),
    ] {
        assert_failure(&status, reason, sentence);
    }
}

#[test]
fn a_container_that_ends_says_what_to_do() {
    let running = json!({ "running": {} });
    let none = json!({});
    let crash = waiting("CrashLoopBackOff", "back-off 40s restarting failed container");
    for (status, reason, sentence) in [
        (
            serving(&crash, &terminated(137, "OOMKilled", "")),
            R::CrashLoopBackOff,
            "the container kserve-container was killed for using more memory than its limit of 512Mi: raise \
             resources.limits.memory",
        ),
        (
            serving(&crash, &terminated(1, "Error", "loading\nerror: no model in /mnt/models\n")),
            R::CrashLoopBackOff,
            "the container kserve-container ended with code 1 (no model in /mnt/models): see `kubectl logs --previous`",
        ),
        (
            serving(
                &crash,
                &terminated(
                    1,
                    "Error",
                    "2026-11-27T13:24:45.615487Z  INFO weir_runtime::app::ports: listening bound=0.0.0.0:8002\n\
                     2026-11-27T13:24:45.616944Z ERROR weir_runtime::app: --device asks for CUDA, but there is no \
                     driver: libcuda.so.1: cannot open shared object file: No such file or directory; a pod needs `runtimeClassName: nvidia`, \
                     or a node where the GPU Operator's toolkit is the default runtime; a machine needs NVIDIA's driver; \
                     or choose --device cpu\n",
                ),
            ),
            R::CrashLoopBackOff,
            "the container kserve-container ended with code 1 (--device asks for CUDA, but there \
             is no driver: libcuda.so.1: cannot open shared object file: No such file or directory; a pod needs \
             `runtimeClassName: nvidia`, or a node where the GPU Operator's toolkit is the default runtime; a machine \
             needs NVIDIA's driver; or choose --device cpu): see `kubectl logs --previous`",
        ),
        (
            serving(&running, &terminated(2, "Error", "")),
            R::Exited,
            "the container kserve-container ended with code 2: see `kubectl logs --previous`",
        ),
        (
            serving(&terminated(128, "StartError", r#"exec: "serve": executable file not found in $PATH"#), &none),
            R::Exited,
            r#"the container kserve-container cannot be started (exec: "serve": executable file not found in $PATH): correct the container's command"#,
        ),
    ] {
        assert_failure(&status, reason, sentence);
    }
}

#[test]
fn a_failed_init_container_says_what_to_do() {
    for (status, reason, sentence) in [
        (
            first("storage-initializer", &terminated(1, "Error", "error: https://host/digits.zip answered 404\n")),
            R::StorageFailed,
            "the model cannot be fetched, https://host/digits.zip answered 404: correct the storageUri, or what it \
             leads to",
        ),
        (
            first("storage-initializer", &waiting("ErrImagePull", "not found")),
            R::StorageFailed,
            r#"the image "example/server:1" cannot be pulled, ImagePullBackOff (not found): correct its name and tag, or name a Secret for its registry in imagePullSecrets"#,
        ),
        (
            first(
                "storage-initializer",
                &waiting("CreateContainerConfigError", "couldn't find key minio in Secret vision/storage-config"),
            ),
            R::StorageFailed,
            "the container storage-initializer cannot be made, CreateContainerConfigError (couldn't find key minio in \
             Secret vision/storage-config): add that key to it, or correct the name of the key, such as \
             model.storage.key",
        ),
        (
            first("storage-initializer", &terminated(1, "Error", "error: s3://private/digits answered 403\n")),
            R::StorageFailed,
            "the model cannot be fetched, s3://private/digits answered 403: no Secret was used, as the ServiceAccount \
             default named none: add one to its `secrets` or, for a registry, to its imagePullSecrets, and change the \
             service's predictor, so that a new revision uses it; or correct the storageUri",
        ),
        (
            first("migrate", &terminated(3, "Error", "")),
            R::Exited,
            "the container migrate ended with code 3: see `kubectl logs --previous`",
        ),
    ] {
        assert_failure(&status, reason, sentence);
    }
}

#[test]
fn a_pod_that_is_given_up_says_what_to_do() {
    let evicted = json!({
        "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
    });
    assert_failure(
        &evicted,
        R::Exited,
        "its node gave it up, Evicted (The node was low on resource: memory): another pod takes its place; request \
         what it really uses",
    );
}

/// Returns the status that a pod has once its node stops answering: its containers as the kubelet last reported them.
fn silent(ready: &Value) -> Value {
    let running = container("kserve-container", &json!({ "running": {} }), &json!({}));
    json!({
        "phase": "Running",
        "conditions": [
            { "type": "PodScheduled", "status": "True" },
            ready,
            { "type": "ContainersReady", "status": "True" },
        ],
        "containerStatuses": [running],
    })
}

#[test]
fn a_pod_whose_node_is_silent_says_which_and_since_when() {
    let ready = json!({ "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:10Z" });
    let mut pod = pod(&silent(&ready));
    pod.spec.as_mut().unwrap().node_name = Some("gpu-1".to_owned());
    let failure = failure(&pod).unwrap();
    assert_eq!(failure.reason, R::NodeNotReady);
    assert_eq!(failure.at, Some(1_767_225_610));
    let expected = "its node gpu-1 does not answer since 2026-01-01T00:00:10Z: repair it, or `kubectl delete node gpu-1`; \
         another pod takes its place after 5 minutes, or as its tolerations say";
    assert_eq!(&*failure.message, expected);
}

#[test]
fn a_pod_that_makes_progress_has_no_failure() {
    let running = json!({ "running": {} });
    let none = json!({});
    let gates = json!({ "type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady" });
    for status in [
        silent(&gates),
        silent(&json!({ "type": "Ready", "status": "True" })),
        serving(&waiting("ContainerCreating", ""), &none),
        serving(&running, &none),
        first("storage-initializer", &running),
        first("storage-initializer", &terminated(0, "Completed", "")),
        json!({ "phase": "Pending", "resourceClaimStatuses": [{ "name": "gpu" }] }),
    ] {
        assert_eq!(failure(&pod(&status)), None, "{status}");
    }
}

/// Sentences of `weir fetch` about sources that cannot be fetched, which tests/storage compares with the terminal.
const SENTENCES: &str = include_str!("../../../../../../tests/storage/sentences.json");

#[test]
fn each_sentence_of_a_failed_fetch_is_repeated() {
    let sentences: std::collections::BTreeMap<String, String> = serde_json::from_str(SENTENCES).unwrap();
    for (name, sentence) in sentences {
        let sentence = sentence.replace("{uri}", "s3://models/m").replace("{host}", "registry.test");
        let ended = terminated(1, "Error", &format!("error: {sentence}"));
        let failure = failure(&pod(&first("storage-initializer", &ended))).unwrap();
        assert_eq!(failure.reason, R::StorageFailed, "{name}");
        let repeated = format!("the model cannot be fetched, {sentence}: ");
        assert!(failure.message.starts_with(&repeated), "{name}: {}", failure.message);
    }
}

#[test]
fn a_long_message_is_cut_between_letters() {
    let message = "ä".repeat(2000);
    let text = in_parentheses(&message);
    assert!(text.ends_with("…)") && text.chars().count() < 520);
}

#[test]
fn an_image_that_cannot_be_pulled_names_its_secret_or_its_name() {
    let waits = |message: &str, secrets: &[&str]| {
        let mut pod = pod(&serving(&waiting("ErrImagePull", message), &json!({})));
        let secrets = json!(secrets.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>());
        pod.spec.as_mut().unwrap().image_pull_secrets = serde_json::from_value(secrets).unwrap();
        failure(&pod).unwrap().message.to_string()
    };
    let refused = "failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized";
    for (message, secrets, advice) in [
        (
            refused,
            &["regcred"][..],
            "create the Secret regcred of imagePullSecrets in this namespace, if it is missing, or correct its content",
        ),
        (refused, &[], "name a Secret for its registry in imagePullSecrets, or correct its name"),
        ("dial tcp: lookup registry.exmaple.com: no such host", &["regcred"], "correct the name of its registry"),
        (
            "example/server:1: not found",
            &["a", "b"],
            "correct its name and tag, or see that the Secret a and b of imagePullSecrets is there",
        ),
    ] {
        let text = waits(message, secrets);
        assert!(text.ends_with(&format!(": {advice}")), "{text}");
    }
}

#[test]
fn a_pod_that_no_scheduler_has_processed_names_its_scheduler() {
    let overdue = |status: Value, fields: Value| {
        let mut object = serde_json::to_value(pod(&status)).unwrap();
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:10Z");
        let spec = object["spec"].as_object_mut().unwrap();
        spec.remove("resourceClaims");
        spec.extend(fields.as_object().unwrap().clone());
        let overdue = Overdue::of(&serde_json::from_value(object).unwrap())?;
        Some((overdue.failure(1_767_225_639).cloned(), overdue.failure(1_767_225_640)?.clone()))
    };
    let pending = json!({ "phase": "Pending" });
    let (early, late) = overdue(pending.clone(), json!({ "schedulerName": "volcano" })).unwrap();
    assert_eq!(early, None, "a scheduler may take half a minute");
    assert_eq!(
        (late.reason, &*late.message),
        (
            R::NotStarted,
            "no scheduler called volcano has looked at it: install that scheduler, or correct schedulerName"
        )
    );
    let (_, late) = overdue(pending.clone(), json!({})).unwrap();
    assert_eq!(&*late.message, "no scheduler has looked at it: see that the cluster's kube-scheduler runs");
    let placed = json!({ "nodeName": "gpu-1" });
    assert_eq!(overdue(pending, placed), None);
    let looked_at = condition("Unschedulable", "0/3 nodes are available");
    assert_eq!(overdue(looked_at, json!({ "schedulerName": "volcano" })), None);
}

#[test]
fn a_pod_that_was_ready_has_failed_after_half_a_minute_and_one_that_starts_has_not() {
    let status = |ready_until: &str| {
        let running = json!({ "running": { "startedAt": "2026-01-01T00:00:10Z" } });
        let mut status = serving(&running, &terminated(1, "Error", ""));
        let ready = json!({
            "type": "Ready", "status": "False", "lastTransitionTime": ready_until, "reason": "ContainersNotReady",
            "message": "containers with unready status: [kserve-container]",
        });
        status["conditions"].as_array_mut().unwrap().push(ready);
        pod(&status)
    };
    let unready = status("2026-01-01T00:01:00Z");
    assert_eq!(failure(&unready), None, "the exit before it was ready is not the cause");
    let overdue = Overdue::of(&unready).unwrap();
    assert_eq!(overdue.failure(1_767_225_689), None);
    let late = overdue.failure(1_767_225_690).unwrap();
    let expected = "it runs, and has not been ready since 2026-01-01T00:01:00Z (containers with unready status: \
                    [kserve-container]): see its log and its readinessProbe";
    assert_eq!((late.reason, &*late.message, late.at), (R::NotReady, expected, Some(1_767_225_660)));
    for never_ready in ["2026-01-01T00:00:05Z", "2026-01-01T00:00:10Z"] {
        let starts = status(never_ready);
        assert_eq!(failure(&starts).unwrap().reason, R::Exited);
        assert_eq!(Overdue::of(&starts), None);
    }
}
