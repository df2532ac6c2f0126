//! The liveness probe of a replica.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use super::{EndpointKind, FAILURE_THRESHOLD, PERIOD, Probe, ProbeHandler, SUCCESS_THRESHOLD, ServerKind, TIMEOUT};

/// Path of the V2 live call.
const V2_LIVE: &str = "/v2/health/live";

impl Probe {
    /// Returns the liveness probe. For foreign servers it is the container's own; `None` if there is none, so that a
    /// server that is busy for long is left alone, as on Kubernetes. Weir's own runtime is always probed by the V2 live
    /// call, which it answers under any load; only the times of the pod's probe apply.
    pub(crate) fn liveness(container: &Container, server: ServerKind) -> Option<Self> {
        let declared = container.liveness_probe.as_ref();
        let own = declared.and_then(|probe| Self::read(probe, container).ok());
        match server {
            ServerKind::Foreign => own,
            ServerKind::Weir => Some(Self {
                handler: ProbeHandler::HttpGet(V2_LIVE.to_owned()),
                endpoint: EndpointKind::Http,
                timeout: TIMEOUT,
                period: own.as_ref().map_or(PERIOD, |own| own.period),
                failure_threshold: own.as_ref().map_or(FAILURE_THRESHOLD, |own| own.failure_threshold),
                initial_delay: own.map_or(Duration::ZERO, |own| own.initial_delay),
                success_threshold: SUCCESS_THRESHOLD,
            }),
        }
    }

    /// Returns true if the container has a liveness probe that can be run without Kubernetes.
    pub(crate) fn has_liveness(container: &Container) -> bool {
        let probe = container.liveness_probe.as_ref();
        probe.is_some_and(|probe| Self::read(probe, container).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn liveness(container: Value, server: ServerKind) -> Option<Probe> {
        let mut container = container;
        container["name"] = "c".into();
        Probe::liveness(&serde_json::from_value(container).unwrap(), server)
    }

    fn times(probe: &Probe) -> (u64, u32) {
        (probe.period.as_secs(), probe.failure_threshold)
    }

    #[test]
    fn our_runtime_is_probed_by_the_v2_live_call_with_the_times_of_the_pod() {
        let live = ProbeHandler::HttpGet(V2_LIVE.to_owned());
        let plain = liveness(json!({}), ServerKind::Weir).unwrap();
        assert_eq!((&plain.handler, times(&plain)), (&live, (10, 3)));
        let container = json!({ "livenessProbe": {
            "tcpSocket": { "port": 80 }, "periodSeconds": 4, "failureThreshold": 5, "initialDelaySeconds": 6,
        }});
        let declared = liveness(container, ServerKind::Weir).unwrap();
        assert_eq!((&declared.handler, times(&declared)), (&live, (4, 5)));
        assert_eq!(declared.initial_delay, Duration::from_secs(6));
    }

    #[test]
    fn another_server_is_probed_only_by_a_liveness_probe_of_its_own() {
        let ready = json!({ "tcpSocket": { "port": 80 }, "failureThreshold": 7 });
        let get = json!({ "httpGet": { "path": "/alive", "port": 80 }, "periodSeconds": 1 });
        let both = json!({ "readinessProbe": ready, "livenessProbe": get });
        let both = liveness(both, ServerKind::Foreign).unwrap();
        let alive = ProbeHandler::HttpGet("/alive".to_owned());
        assert_eq!((&both.handler, times(&both)), (&alive, (1, 3)));
        let exec = json!({ "exec": { "command": ["true"] }});
        for container in [json!({}), json!({ "readinessProbe": ready }), json!({ "livenessProbe": exec })] {
            assert_eq!(liveness(container.clone(), ServerKind::Foreign), None, "{container}");
        }
    }
}
