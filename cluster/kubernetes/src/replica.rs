//! A pod, as a replica.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use kube::ResourceExt;
use weir_cluster::{
    Address, ContainerPorts, Endpoints, Failure, FailureReason, Phase, Replica, Workload,
};

use crate::entry::entry;

/// The replica that a pod is; `before` is what it was.
pub(crate) fn replica(pod: &Pod, before: Option<&Replica>) -> Replica {
    let phase = phase(pod, before);
    let failure = match phase {
        Phase::Ready => None,
        // Its processes end because they are told to.
        Phase::Terminating => before.and_then(|before| before.failure.clone()),
        _ => failure(pod).or_else(|| before.and_then(|before| before.failure.clone())),
    };
    let restarts = serving(pod).map_or(0, |status| status.restart_count);
    Replica {
        name: pod.name_any().into(),
        phase,
        endpoints: endpoints(pod).unwrap_or_default(),
        restarts: u32::try_from(restarts).unwrap_or_default(),
        failure,
    }
}

fn phase(pod: &Pod, before: Option<&Replica>) -> Phase {
    if pod.metadata.deletion_timestamp.is_some() {
        return Phase::Terminating;
    }
    if has_condition(pod, "Ready", "True") {
        return Phase::Ready;
    }
    let was_ready = before.is_some_and(|b| matches!(b.phase, Phase::Ready | Phase::Unready));
    match serving(pod).and_then(|status| status.state.as_ref()) {
        Some(state) if state.running.is_some() && was_ready => Phase::Unready,
        Some(state) if state.running.is_some() => Phase::Starting,
        Some(state) if state.terminated.is_some() => Phase::BackOff,
        Some(_) if serving(pod).is_some_and(|status| status.restart_count > 0) => Phase::BackOff,
        Some(_) | None => Phase::Pending,
    }
}

/// Why it is not ready, as far as its pod says so.
fn failure(pod: &Pod) -> Option<Failure> {
    unplaced(pod)
        .or_else(|| serving(pod).and_then(waits))
        .or_else(|| serving(pod).and_then(ended))
        .or_else(|| init_failed(pod))
}

fn unplaced(pod: &Pod) -> Option<Failure> {
    let conditions = status(pod)?.conditions.as_ref()?;
    let unplaced = conditions
        .iter()
        .find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    fail(FailureReason::NotStarted, unplaced.message.clone()?)
}

/// A container that the kubelet could not start, or starts no more for now.
fn waits(container: &ContainerStatus) -> Option<Failure> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    let because = waiting.message.clone().unwrap_or_else(|| reason.to_owned());
    match reason {
        "ContainerCreating" | "PodInitializing" => None,
        "CrashLoopBackOff" => {
            let code = ended(container).map_or(because, |ended| ended.message.to_string());
            fail(FailureReason::CrashLoopBackOff, code)
        }
        _ => fail(FailureReason::NotStarted, format!("{reason}: {because}")),
    }
}

fn ended(container: &ContainerStatus) -> Option<Failure> {
    let now = container
        .state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    let before = container
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    let ended = now.or(before)?;
    let because = match ended.reason.as_deref() {
        Some("OOMKilled") => "it was killed for using more memory than its limit".to_owned(),
        _ => format!("it ended with code {}", ended.exit_code),
    };
    fail(FailureReason::Exited, because)
}

/// An init container that failed: they fetch the model's files.
fn init_failed(pod: &Pod) -> Option<Failure> {
    let containers = status(pod)?.init_container_statuses.as_ref()?;
    let failed = containers
        .iter()
        .find_map(|status| waits(status).or_else(|| failed(status)))?;
    fail(FailureReason::StorageFailed, failed.message.to_string())
}

fn failed(container: &ContainerStatus) -> Option<Failure> {
    let ended_well = |state: &k8s_openapi::api::core::v1::ContainerState| {
        state
            .terminated
            .as_ref()
            .is_some_and(|ended| ended.exit_code == 0)
    };
    match &container.state {
        Some(state) if ended_well(state) => None,
        Some(_) | None => ended(container),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "every caller has one or none")]
fn fail(reason: FailureReason, message: String) -> Option<Failure> {
    Some(Failure {
        reason,
        message: message.into(),
    })
}

/// The status of the container that serves.
fn serving(pod: &Pod) -> Option<&ContainerStatus> {
    let name = &container(pod)?.name;
    let statuses = status(pod)?.container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == *name)
}

fn container(pod: &Pod) -> Option<&Container> {
    let containers = &pod.spec.as_ref()?.containers;
    let named = containers.iter().find(|c| c.name == Workload::CONTAINER);
    named.or(containers.first())
}

fn status(pod: &Pod) -> Option<&PodStatus> {
    pod.status.as_ref()
}

fn has_condition(pod: &Pod, kind: &str, value: &str) -> bool {
    let conditions = status(pod).and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == kind && c.status == value))
}

fn endpoints(pod: &Pod) -> Option<Endpoints> {
    let address: IpAddr = status(pod)?.pod_ip.as_ref()?.parse().ok()?;
    let ports = ContainerPorts::of(entry(pod.spec.as_ref()?)?);
    let at = |port: u16| Address::Tcp(SocketAddr::new(address, port));
    Some(Endpoints {
        http: ports.http.map(at),
        grpc: ports.grpc.map(at),
    })
}
