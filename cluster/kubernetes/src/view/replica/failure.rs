//! Reasons why a pod is not ready, as sentences that say what to do.

mod fetch;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Pod, PodCondition, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use weir_cluster::{Failure, FailureReason, Phase};

use super::{advice, room};
use crate::entry::containers;

/// Init container that fetches a model.
pub(super) const STORAGE_INITIALIZER: &str = "storage-initializer";

/// Number of restarts from which a container counts as crash-looping: the kubelet delays the second restart and later
/// ones.
const LOOPS: i32 = 2;

/// Waiting reasons of a container whose start failed: the kubelet backs off, or the start can succeed only after a
/// change.
const HELD_BACK: [&str; 5] = [
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "SignatureValidationFailed",
];

/// Waiting reasons of a container between two back-offs, while the kubelet tries again.
const TRIED_AGAIN: [&str; 4] = ["ErrImagePull", "RegistryUnavailable", "ImageInspectError", "CreateContainerError"];

/// Text before the cause in the kubelet's message about an image pull that is backing off.
const PULL_CAUSE: &str = "ErrImagePull: ";

/// Longest termination message that is included in a failure, in bytes.
const LONGEST: usize = 512;

/// Returns why a pod is not ready, as far as its status says so.
pub(super) fn failure(pod: &Pod) -> Option<Failure> {
    let status = pod.status.as_ref()?;
    ended_as_a_whole(status)
        .or_else(|| unplaced(pod, status))
        .or_else(|| on_silent_node(pod))
        .or_else(|| of_containers(pod, status.init_container_statuses.as_deref(), Kind::First))
        .or_else(|| of_containers(pod, status.container_statuses.as_deref(), Kind::Serving))
}

/// Returns the condition `Ready` of a pod whose node does not answer. Kubernetes then sets `Ready` to false and leaves
/// the other conditions as the kubelet wrote them last. Otherwise only a readiness gate keeps a pod with ready
/// containers from being ready.
pub(super) fn node_not_ready(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    let ready = conditions.iter().find(|c| c.type_ == "Ready")?;
    let has_containers = conditions.iter().any(|c| c.type_ == "ContainersReady" && c.status == "True");
    let waits_for_gates = ready.reason.as_deref() == Some("ReadinessGatesNotReady");
    (has_containers && ready.status != "True" && !waits_for_gates).then_some(ready)
}

/// Returns the condition `Ready` of a pod that was ready after this container's last start, and is not any more.
pub(super) fn no_longer_ready<'a>(pod: &'a Pod, status: &ContainerStatus) -> Option<&'a PodCondition> {
    let running = status.state.as_ref()?.running.as_ref()?;
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    // The condition of a new pod, or of a pod whose container ended, is false before the container starts, and stays so
    // until the pod is ready.
    let ready = conditions.find(|c| c.type_ == "Ready" && c.status == "False")?;
    (ready.last_transition_time.as_ref()?.0 > running.started_at.as_ref()?.0).then_some(ready)
}

/// Reports a pod on a node that does not answer; its containers presumably still run.
fn on_silent_node(pod: &Pod) -> Option<Failure> {
    let ready = node_not_ready(pod)?;
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    let since = ready.last_transition_time.as_ref();
    let at = since.map_or(String::new(), |since| format!(" since {}", since.0));
    let sentence = format!(
        "its node {node} does not answer{at}: repair it, or `kubectl delete node {node}`; another pod takes its place after 5 \
         minutes, or as its tolerations say"
    );
    Some(Failure { at: since.and_then(seconds), ..fail(FailureReason::NodeNotReady, sentence) })
}

/// Kind of a container: one that runs first and must succeed (an init container), or one that serves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    First,
    Serving,
}

/// Reports a pod that its node has ended as a whole, such as an evicted one.
fn ended_as_a_whole(status: &PodStatus) -> Option<Failure> {
    let has_failed = status.phase.as_deref() == Some("Failed");
    let reason = status.reason.as_deref().filter(|_| has_failed)?;
    let message = status.message.as_deref().unwrap_or_default();
    let what_to_do = match reason {
        "Evicted" => "another pod takes its place; request what it really uses",
        _ => "another pod takes its place",
    };
    let sentence = format!("its node gave it up, {reason}{}: {what_to_do}", in_parentheses(message));
    Some(fail(FailureReason::Exited, sentence))
}

/// Reports a pod that has no node.
fn unplaced(pod: &Pod, status: &PodStatus) -> Option<Failure> {
    let conditions = status.conditions.iter().flatten();
    let placed = conditions.into_iter().find(|c| c.type_ == "PodScheduled");
    let sentence = match placed {
        Some(placed) if placed.status == "False" => {
            let message = placed.message.as_deref().unwrap_or_default();
            let message = why_no_node(message);
            match placed.reason.as_deref() {
                Some("SchedulingGated") => {
                    "its scheduling gates are closed: a queue such as Kueue's opens them".to_owned()
                }
                _ => format!("no node takes it{}: {}", in_parentheses(message), advice::of_scheduler(message)),
            }
        }
        Some(_) => return None,
        None => format!("it waits for its resource claims: create {}", unmade_claims(pod, status)?),
    };
    let since = placed.and_then(|placed| placed.last_transition_time.as_ref());
    let lacks = placed.and_then(|placed| room::lacking(placed.message.as_deref()?));
    Some(Failure { at: since.and_then(seconds), lacks, ..fail(FailureReason::NotStarted, sentence) })
}

/// Returns the part of a scheduler's message that says why no node fits. The rest says what evicting other pods, or
/// releasing their claims, would achieve.
fn why_no_node(message: &str) -> &str {
    let others = [" preemption:", " no new claims to deallocate"];
    let end = others.iter().filter_map(|other| message.find(other)).min();
    &message[..end.unwrap_or(message.len())]
}

/// Returns the templates of the resource claims that do not exist yet. The scheduler ignores the pod until they do.
fn unmade_claims(pod: &Pod, status: &PodStatus) -> Option<String> {
    let made: Vec<_> = status.resource_claim_statuses.iter().flatten().collect();
    let claims = pod.spec.as_ref()?.resource_claims.iter().flatten();
    let unmade = claims.filter(|claim| made.iter().all(|made| made.name != claim.name));
    let templates: Vec<_> = unmade
        .filter_map(|claim| claim.resource_claim_template_name.as_ref())
        .map(|template| format!("the ResourceClaimTemplate {template:?}"))
        .collect();
    (!templates.is_empty()).then(|| templates.join(" and "))
}

fn of_containers(pod: &Pod, statuses: Option<&[ContainerStatus]>, kind: Kind) -> Option<Failure> {
    statuses.into_iter().flatten().find_map(|status| of_container(pod, status, kind))
}

fn of_container(pod: &Pod, status: &ContainerStatus, kind: Kind) -> Option<Failure> {
    let state = status.state.as_ref();
    let before = status.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let now = state.and_then(|state| state.terminated.as_ref());
    if kind == Kind::First && now.is_some_and(|now| now.exit_code == 0) {
        return None;
    }
    let ended = now.or(before).map(|ended| (ended, pod));
    match (waiting, ended) {
        (Some(waiting), ended) => waits(pod, status, waiting, ended, kind),
        // The pod was ready since, so that exit is not the cause.
        (None, Some(_)) if no_longer_ready(pod, status).is_some() => None,
        // The container has been started again; its last exit is reported until it is ready.
        (None, Some(ended)) => Some(ended_with(status, ended, kind, ended_reason(status))),
        (None, None) => None,
    }
}

/// Returns the reason for a container that ended. It is the same while the container waits for its next start and while
/// it runs again.
fn ended_reason(status: &ContainerStatus) -> FailureReason {
    if status.restart_count >= LOOPS { FailureReason::CrashLoopBackOff } else { FailureReason::Exited }
}

/// Returns true if the kubelet has delayed the next start of one of the pod's containers because an earlier start
/// failed. An image pull that failed once does not count, because the kubelet soon pulls again.
pub(super) fn backs_off(pod: &Pod, before: Option<Phase>) -> bool {
    let Some(status) = pod.status.as_ref() else {
        return false;
    };
    let first = status.init_container_statuses.iter().flatten().any(|status| {
        let state = status.state.as_ref();
        let ended = state.and_then(|state| state.terminated.as_ref());
        let fails = ended.is_some_and(|ended| ended.exit_code != 0) || is_waiting_for(status, &["CrashLoopBackOff"]);
        fails && status.restart_count > 0
    });
    let mut all = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let unmade = all.any(|status| {
        let was = before == Some(Phase::BackOff);
        is_waiting_for(status, &HELD_BACK) || (was && is_waiting_for(status, &TRIED_AGAIN))
    });
    first || unmade
}

fn is_waiting_for(status: &ContainerStatus, reasons: &[&str]) -> bool {
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.and_then(|waiting| waiting.reason.as_deref()).is_some_and(|reason| reasons.contains(&reason))
}

/// Returns how the serving container last ended, even if the container has been started again.
pub(super) fn last_exit(pod: &Pod, status: &ContainerStatus) -> Option<Failure> {
    let mut states = [&status.state, &status.last_state].into_iter().flatten();
    let ended = states.find_map(|state| state.terminated.as_ref())?;
    let reason = match ended.reason.as_deref() {
        Some("OOMKilled") => FailureReason::OutOfMemory,
        Some(_) | None => FailureReason::Exited,
    };
    Some(ended_with(status, (ended, pod), Kind::Serving, reason))
}

/// Reports a container that the kubelet could not start, or whose next start it delays.
fn waits(
    pod: &Pod,
    status: &ContainerStatus,
    waiting: &ContainerStateWaiting,
    ended: Option<(&ContainerStateTerminated, &Pod)>,
    kind: Kind,
) -> Option<Failure> {
    let message = waiting.message.as_deref().unwrap_or_default();
    let sentence = match waiting.reason.as_deref()? {
        "ContainerCreating" | "PodInitializing" => {
            return ended.map(|ended| ended_with(status, ended, kind, ended_reason(status)));
        }
        "CrashLoopBackOff" => {
            let reason = FailureReason::CrashLoopBackOff;
            return Some(match ended {
                Some(ended) => ended_with(status, ended, kind, reason),
                None => fail(reason, format!("the container {} ends again and again", status.name)),
            });
        }
        reason @ ("ErrImagePull"
        | "ImagePullBackOff"
        | "ErrImageNeverPull"
        | "InvalidImageName"
        | "RegistryUnavailable"
        | "ImageInspectError"
        | "SignatureValidationFailed") => return Some(without_image(pod, status, reason, message, kind)),
        reason => format!(
            "the container {} cannot be made, {reason}{}: {}",
            status.name,
            in_parentheses(message),
            advice::of_kubelet(message)
        ),
    };
    Some(fail(reason_of(status, kind, FailureReason::NotStarted), sentence))
}

/// Returns the failure of an image that cannot be pulled. The kubelet alternates between two reasons, while it pulls
/// and while it waits; the failure has one.
fn without_image(pod: &Pod, status: &ContainerStatus, reason: &str, message: &str, kind: Kind) -> Failure {
    let reason = if reason == "ErrImagePull" { "ImagePullBackOff" } else { reason };
    let cause = message.split_once(PULL_CAUSE).map_or(message, |(_, cause)| cause);
    let sentence = format!(
        "the image {:?} cannot be pulled, {reason}{}: {}",
        status.image,
        in_parentheses(cause),
        advice::of_image(cause, &pull_secrets(pod))
    );
    fail(reason_of(status, kind, FailureReason::NotStarted), sentence)
}

/// Returns the failure to report. While the kubelet backs off from an image, that is the cause of its last pull.
pub(super) fn steady(pod: &Pod, now: Option<Failure>, former: Option<Failure>) -> Option<Failure> {
    let now = now?;
    let status = pod.status.as_ref();
    let mut all = status.into_iter().flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    });
    let waits = all.find(|status| is_waiting_for(status, &["ImagePullBackOff"]));
    let is_bare = waits.is_some_and(|status| {
        let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
        !waiting.and_then(|waiting| waiting.message.as_deref()).is_some_and(|message| message.contains(PULL_CAUSE))
    });
    let prefix = waits.map(|status| format!("the image {:?} cannot be pulled, ", status.image));
    let same = former.filter(|former| {
        let of_image = |failure: &Failure| prefix.as_ref().is_some_and(|prefix| failure.message.starts_with(&**prefix));
        is_bare && of_image(former) && of_image(&now)
    });
    Some(same.unwrap_or(now))
}

/// Returns the names of the Secrets for pulling the pod's images.
fn pull_secrets(pod: &Pod) -> Vec<&str> {
    let secrets = pod.spec.iter().flat_map(|spec| &spec.image_pull_secrets);
    secrets.flatten().map(|secret| &*secret.name).collect()
}

/// Reports a container that ended, by its exit code and last message.
fn ended_with(
    status: &ContainerStatus,
    (ended, pod): (&ContainerStateTerminated, &Pod),
    kind: Kind,
    reason: FailureReason,
) -> Failure {
    let name = &status.name;
    let container = containers(pod).find(|container| container.name == *name);
    let message = last_line(ended.message.as_deref().unwrap_or_default());
    let sentence = match (ended.reason.as_deref(), kind) {
        (Some("OOMKilled"), _) => format!(
            "the container {name} was killed for using more memory than its limit{}: raise resources.limits.memory",
            limit(container)
        ),
        (Some("ContainerCannotRun" | "StartError"), _) => {
            let message = ended.message.as_deref().unwrap_or_default();
            let what_to_do = advice::of_kubelet(message);
            format!("the container {name} cannot be started{}: {what_to_do}", in_parentheses(message))
        }
        (_, Kind::First) if name.starts_with(STORAGE_INITIALIZER) && !message.is_empty() => {
            fetch::sentence(message, pod, container)
        }
        _ => format!(
            "the container {name} ended with code {}{}: see `kubectl logs --previous`",
            ended.exit_code,
            in_parentheses(message)
        ),
    };
    Failure {
        exit_code: Some(ended.exit_code),
        at: ended.finished_at.as_ref().and_then(seconds),
        ..fail(reason_of(status, kind, reason), sentence)
    }
}

/// Returns the reason for a container's failure: StorageFailed for the init container that fetches a model.
fn reason_of(status: &ContainerStatus, kind: Kind, other: FailureReason) -> FailureReason {
    if kind == Kind::First && status.name.starts_with(STORAGE_INITIALIZER) {
        FailureReason::StorageFailed
    } else {
        other
    }
}

fn limit(container: Option<&Container>) -> String {
    let resources = container.and_then(|container| container.resources.as_ref());
    let limit = resources.and_then(|resources| resources.limits.as_ref()?.get("memory"));
    limit.map_or(String::new(), |limit| format!(" of {}", limit.0))
}

/// Returns the last line that is not empty, where a program prints why it ends.
fn last_line(message: &str) -> &str {
    let mut lines = message.lines().rev().map(str::trim);
    let last = lines.find(|line| !line.is_empty()).unwrap_or_default();
    let last = logged(last).unwrap_or(last);
    last.strip_prefix("error: ").unwrap_or(last)
}

/// Returns the message of a log line of Weir's programs, `TIME LEVEL TARGET: MESSAGE`. The time would make the message
/// of a condition differ after each restart.
fn logged(line: &str) -> Option<&str> {
    let (time, rest) = line.split_once(' ')?;
    let (level, rest) = rest.trim_start().split_once(' ')?;
    let (target, message) = rest.split_once(": ")?;
    let is_log = time.parse::<Timestamp>().is_ok() && ["ERROR", "WARN", "INFO"].contains(&level);
    (is_log && target.starts_with("weir_") && !target.contains(' ')).then_some(message)
}

/// Returns a message in brackets, shortened to [`LONGEST`]; empty if there is none.
pub(super) fn in_parentheses(message: &str) -> String {
    let message = message.trim().trim_end_matches('.');
    match message.char_indices().nth(LONGEST) {
        None if message.is_empty() => String::new(),
        None => format!(" ({message})"),
        Some((end, _)) => format!(" ({}…)", &message[..end]),
    }
}

fn fail(reason: FailureReason, message: String) -> Failure {
    Failure::new(reason, message)
}

pub(super) fn seconds(time: &Time) -> Option<u64> {
    u64::try_from(time.0.as_second()).ok()
}
