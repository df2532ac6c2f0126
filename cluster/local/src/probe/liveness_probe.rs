//! The liveness probe of a replica.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use super::{EndpointKind, FAILURE_THRESHOLD, Probe, ProbeHandler, ServerKind, TIMEOUT, positive};

/// The V2 live call.
const V2_LIVE: &str = "/v2/health/live";

/// Time between two probes where a pod does not say: Kubernetes' default. With its three failures in
/// a row a replica is ended after 30 s, longer than any pause of a server that goes on.
const PERIOD: Duration = Duration::from_secs(10);

/// The liveness probe of a replica, and how often it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LivenessProbe {
    /// Its `failure_threshold` is the failures in a row after which the replica hangs.
    pub(crate) probe: Probe,
    pub(crate) period: Duration,
}

impl LivenessProbe {
    /// The container's liveness probe, else what its readiness probe checks: three failures in half a minute. Weir's own runtime is probed by the V2 live call, which it answers however busy it
    /// is; of a pod's probe it takes the times.
    pub(crate) fn of(container: &Container, server: ServerKind) -> Result<Self, String> {
        let declared = container.liveness_probe.as_ref();
        let own = declared.and_then(|probe| Probe::read(probe, container).ok());
        let mut probe = match (server, own) {
            (ServerKind::Weir, _) => Probe {
                handler: ProbeHandler::HttpGet(V2_LIVE.to_owned()),
                endpoint: EndpointKind::Http,
                timeout: TIMEOUT,
                failure_threshold: FAILURE_THRESHOLD,
            },
            (ServerKind::Foreign, Some(own)) => own,
            (ServerKind::Foreign, None) => Probe::of(container, server)?,
        };
        let failure_threshold = declared.and_then(|probe| positive(probe.failure_threshold));
        probe.failure_threshold = failure_threshold.unwrap_or(FAILURE_THRESHOLD);
        let period = declared.and_then(|probe| positive(probe.period_seconds));
        Ok(Self {
            probe,
            period: period.map_or(PERIOD, |seconds| Duration::from_secs(seconds.into())),
        })
    }

    /// Whether a container has a liveness probe that can be probed without Kubernetes.
    pub(crate) fn is_declared(container: &Container) -> bool {
        let probe = container.liveness_probe.as_ref();
        probe.is_some_and(|probe| Probe::read(probe, container).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn liveness(container: Value, server: ServerKind) -> LivenessProbe {
        let mut container = container;
        container["name"] = "c".into();
        LivenessProbe::of(&serde_json::from_value(container).unwrap(), server).unwrap()
    }

    fn times(liveness: &LivenessProbe) -> (u64, u32) {
        (liveness.period.as_secs(), liveness.probe.failure_threshold)
    }

    #[test]
    fn our_runtime_is_asked_by_v2_at_the_times_that_the_pod_says() {
        let live = ProbeHandler::HttpGet(V2_LIVE.to_owned());
        let plain = liveness(json!({}), ServerKind::Weir);
        assert_eq!((&plain.probe.handler, times(&plain)), (&live, (10, 3)));
        let container = json!({ "livenessProbe": {
            "tcpSocket": { "port": 80 }, "periodSeconds": 4, "failureThreshold": 5,
        }});
        let declared = liveness(container, ServerKind::Weir);
        assert_eq!((&declared.probe.handler, times(&declared)), (&live, (4, 5)));
    }

    #[test]
    fn others_are_asked_as_they_say_else_as_for_readiness() {
        let ready = json!({ "tcpSocket": { "port": 80 }, "failureThreshold": 7 });
        let get = json!({ "httpGet": { "path": "/alive", "port": 80 }, "periodSeconds": 1 });
        let both = json!({ "readinessProbe": ready, "livenessProbe": get });
        let both = liveness(both, ServerKind::Foreign);
        let alive = ProbeHandler::HttpGet("/alive".to_owned());
        assert_eq!((&both.probe.handler, times(&both)), (&alive, (1, 3)));
        let one = liveness(json!({ "readinessProbe": ready }), ServerKind::Foreign);
        assert_eq!(
            (&one.probe.handler, times(&one)),
            (&ProbeHandler::TcpConnect, (10, 3))
        );
        let exec = json!({ "livenessProbe": { "exec": { "command": ["true"] }}});
        let exec = liveness(exec, ServerKind::Foreign);
        assert_eq!(exec.probe.handler, ProbeHandler::V2OrNotFound);
    }
}
