//! Checks of the numbers in probes: negative times and invalid ports.

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::ports;
use crate::manifest::field_error::FieldError;

/// Returns the errors in the probes of a container, with their fields below it.
pub(super) fn errors(container: &Container) -> Vec<FieldError> {
    let probes = [
        ("readinessProbe", &container.readiness_probe),
        ("livenessProbe", &container.liveness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    let mut errors = Vec::new();
    for (name, probe) in probes {
        let found = probe.iter().flat_map(|probe| [times(probe), threshold(name, probe), ports_of(probe)]);
        for (field, message) in found.flatten() {
            errors.push(FieldError::new(format!("{name}.{field}"), message));
        }
    }
    errors
}

/// Field of a probe with a message about it.
type Found = (&'static str, String);

/// Returns the negative seconds and counts. Zero means the default, as in Kubernetes.
fn times(probe: &Probe) -> Vec<Found> {
    let numbers = [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("periodSeconds", probe.period_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ];
    let mut found = Vec::new();
    for (field, number) in numbers {
        if let Some(number) = number.filter(|number| *number < 0) {
            let message = format!("{number} is below 0: write 1 or more, or leave the field out");
            found.push((field, message));
        }
    }
    found
}

/// Rejects a success threshold that Kubernetes refuses: only readiness may require several consecutive successes.
fn threshold(name: &str, probe: &Probe) -> Vec<Found> {
    let several = probe.success_threshold.filter(|threshold| *threshold > 1 && name != "readinessProbe");
    let found = several.map(|threshold| ("successThreshold", format!("{threshold} is not 1: {name} has no other")));
    found.into_iter().collect()
}

/// Rejects invalid port numbers. Zero means that the probe names no port and uses the serving port.
fn ports_of(probe: &Probe) -> Vec<Found> {
    let get = probe.http_get.as_ref().map(|call| &call.port);
    let connect = probe.tcp_socket.as_ref().map(|call| &call.port);
    let given = [
        ("httpGet.port", get.and_then(number)),
        ("tcpSocket.port", connect.and_then(number)),
        ("grpc.port", probe.grpc.as_ref().map(|call| call.port)),
    ];
    let mut found = Vec::new();
    for (field, port) in given {
        let port = port.filter(|port| *port != 0);
        found.extend(port.and_then(ports::number).map(|message| (field, message)));
    }
    found
}

fn number(port: &IntOrString) -> Option<i32> {
    match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(_) => None,
    }
}
