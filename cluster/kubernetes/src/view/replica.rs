//! Conversion of a pod to the replica in a snapshot: its phase, its addresses and why it is not ready.

mod advice;
mod download;
mod failure;
mod overdue;
pub(crate) mod room;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use kube::ResourceExt;
use weir_cluster::{Address, ContainerPorts, Endpoints, Failure, FailureReason, Phase, PodTemplate, Replica};

use crate::entry::entry;
pub(crate) use download::progress_address;
use failure::failure;
pub(crate) use overdue::Overdue;

/// Returns the replica of a pod; `before` is its former state.
pub(crate) fn replica(pod: &Pod, before: Option<&Replica>) -> Replica {
    let phase = phase(pod, before);
    let former = || before.and_then(|before| before.failure.clone());
    let failure = match phase {
        Phase::Ready => None,
        // A deletion ends the containers, so their exit is no failure. A deleted pod on a node that does not respond no
        // longer counts as a failure, because its replacement already exists.
        Phase::Terminating if pod.metadata.deletion_timestamp.is_some() => {
            former().filter(|failure| failure.reason != FailureReason::NodeNotReady)
        }
        _ => failure::steady(pod, failure(pod), former()).or_else(|| former().filter(lasts)),
    };
    let restarts = serving(pod).map_or(0, |status| status.restart_count);
    Replica {
        name: pod.name_any().into(),
        phase,
        endpoints: endpoints(pod).unwrap_or_default(),
        restarts: u32::try_from(restarts).unwrap_or_default(),
        failure,
        last_exit: serving(pod).and_then(|status| failure::last_exit(pod, status)),
        // The pod's events do not say the progress, which the pod reports itself.
        download: before.and_then(|before| before.download.clone()).filter(|_| progress_address(pod).is_some()),
    }
}

/// Returns true if a failure is kept after it has passed, until a replica is ready, because the next start may fail
/// likewise. A failed start is over once the container starts, and a silent node once it answers.
pub(crate) fn lasts(failure: &Failure) -> bool {
    match failure.reason {
        FailureReason::NotStarted | FailureReason::NodeNotReady => false,
        FailureReason::StorageFailed
        | FailureReason::Exited
        | FailureReason::CrashLoopBackOff
        | FailureReason::OutOfMemory
        | FailureReason::Hung
        | FailureReason::NotReady => true,
    }
}

fn phase(pod: &Pod, before: Option<&Replica>) -> Phase {
    // A pod that ended as a whole, such as an evicted one, remains until it is deleted. Another pod replaces it.
    let has_ended = status(pod).and_then(|status| status.phase.as_deref());
    if pod.metadata.deletion_timestamp.is_some() || matches!(has_ended, Some("Failed" | "Succeeded")) {
        return Phase::Terminating;
    }
    if has_condition(pod, "Ready", "True") {
        return Phase::Ready;
    }
    let was_ready = before.is_some_and(|b| matches!(b.phase, Phase::Ready | Phase::Unready))
        || failure::node_not_ready(pod).is_some()
        || serving(pod).and_then(|status| failure::no_longer_ready(pod, status)).is_some();
    match serving(pod).and_then(|status| status.state.as_ref()) {
        Some(state) if state.running.is_some() && was_ready => Phase::Unready,
        Some(state) if state.running.is_some() => Phase::Starting,
        Some(state) if state.terminated.is_some() => Phase::BackOff,
        Some(_) if serving(pod).is_some_and(|status| status.restart_count > 0) => Phase::BackOff,
        Some(_) | None if failure::backs_off(pod, before.map(|before| before.phase)) => Phase::BackOff,
        Some(_) | None => Phase::Pending,
    }
}

/// Returns the status of the container that serves.
fn serving(pod: &Pod) -> Option<&ContainerStatus> {
    let name = &container(pod)?.name;
    let statuses = status(pod)?.container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == *name)
}

fn container(pod: &Pod) -> Option<&Container> {
    PodTemplate::serving(&pod.spec.as_ref()?.containers)
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
    let metrics = ports.metrics(pod.metadata.annotations.as_ref());
    Some(Endpoints { http: ports.http.map(at), grpc: ports.grpc.map(at), metrics: metrics.map(at) })
}
