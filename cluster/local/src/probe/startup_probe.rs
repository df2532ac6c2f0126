//! The startup probe of a replica.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use super::Probe;

impl Probe {
    /// Returns the container's own startup probe; `None` if there is none that can be run without Kubernetes.
    pub(crate) fn startup(container: &Container) -> Option<Self> {
        let declared = container.startup_probe.as_ref()?;
        Self::read(declared, container).ok()
    }

    /// Returns the age at which a program whose startup probe still fails is killed, as on Kubernetes.
    pub(crate) fn start_limit(&self) -> Duration {
        self.initial_delay.saturating_add(self.period.saturating_mul(self.failure_threshold))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn startup(probe: Value) -> Option<Probe> {
        let container = json!({ "name": "c", "startupProbe": probe });
        Probe::startup(&serde_json::from_value(container).unwrap())
    }

    #[test]
    fn a_start_may_take_as_long_as_its_probes() {
        let limit = |probe: Value| startup(probe).map(|probe| probe.start_limit().as_secs());
        let connect = json!({ "port": 80 });
        assert_eq!(limit(json!({ "tcpSocket": connect })), Some(30));
        let slow = json!({
            "tcpSocket": connect, "initialDelaySeconds": 5, "periodSeconds": 2, "failureThreshold": 60,
        });
        assert_eq!(limit(slow), Some(125));
    }

    #[test]
    fn a_command_cannot_be_probed_without_kubernetes() {
        assert_eq!(startup(json!({ "exec": { "command": ["true"] } })), None);
    }
}
