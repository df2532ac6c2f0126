//! How a replica is asked whether it lives.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use super::{Door, PATIENCE, Probe, Question, Server, TIMEOUT, positive};

/// The V2 live call.
const V2_LIVE: &str = "/v2/health/live";

/// Time between two questions where a pod does not say: Kubernetes' default. With its three bad answers in
/// a row a replica is given up after 30 s, longer than any pause of a server that goes on.
const PERIOD: Duration = Duration::from_secs(10);

/// How a replica is asked whether it lives, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Liveness {
    /// Its `patience` is the bad answers in a row that give a replica up.
    pub(crate) probe: Probe,
    pub(crate) period: Duration,
}

impl Liveness {
    /// What the container's liveness probe says, else what its readiness probe asks: three bad answers in
    /// half a minute. Weir's own runtime is asked by the V2 live call, which it answers however busy it
    /// is; of a pod's probe it takes the times.
    pub(crate) fn of(container: &Container, server: Server) -> Result<Self, String> {
        let declared = container.liveness_probe.as_ref();
        let own = declared.and_then(|probe| Probe::read(probe, container).ok());
        let mut probe = match (server, own) {
            (Server::Weir, _) => Probe {
                question: Question::Get(V2_LIVE.to_owned()),
                door: Door::Http,
                timeout: TIMEOUT,
                patience: PATIENCE,
            },
            (Server::Foreign, Some(own)) => own,
            (Server::Foreign, None) => Probe::of(container, server)?,
        };
        let patience = declared.and_then(|probe| positive(probe.failure_threshold));
        probe.patience = patience.unwrap_or(PATIENCE);
        let period = declared.and_then(|probe| positive(probe.period_seconds));
        Ok(Self {
            probe,
            period: period.map_or(PERIOD, |seconds| Duration::from_secs(seconds.into())),
        })
    }

    /// Whether a container has a liveness probe that can be asked without Kubernetes.
    pub(crate) fn is_declared(container: &Container) -> bool {
        let probe = container.liveness_probe.as_ref();
        probe.is_some_and(|probe| Probe::read(probe, container).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn liveness(container: Value, server: Server) -> Liveness {
        let mut container = container;
        container["name"] = "c".into();
        Liveness::of(&serde_json::from_value(container).unwrap(), server).unwrap()
    }

    fn times(liveness: &Liveness) -> (u64, u32) {
        (liveness.period.as_secs(), liveness.probe.patience)
    }

    #[test]
    fn our_runtime_is_asked_by_v2_at_the_times_that_the_pod_says() {
        let live = Question::Get(V2_LIVE.to_owned());
        let plain = liveness(json!({}), Server::Weir);
        assert_eq!((&plain.probe.question, times(&plain)), (&live, (10, 3)));
        let container = json!({ "livenessProbe": {
            "tcpSocket": { "port": 80 }, "periodSeconds": 4, "failureThreshold": 5,
        }});
        let declared = liveness(container, Server::Weir);
        assert_eq!(
            (&declared.probe.question, times(&declared)),
            (&live, (4, 5))
        );
    }

    #[test]
    fn others_are_asked_as_they_say_else_as_for_readiness() {
        let ready = json!({ "tcpSocket": { "port": 80 }, "failureThreshold": 7 });
        let get = json!({ "httpGet": { "path": "/alive", "port": 80 }, "periodSeconds": 1 });
        let both = json!({ "readinessProbe": ready, "livenessProbe": get });
        let both = liveness(both, Server::Foreign);
        let alive = Question::Get("/alive".to_owned());
        assert_eq!((&both.probe.question, times(&both)), (&alive, (1, 3)));
        let one = liveness(json!({ "readinessProbe": ready }), Server::Foreign);
        assert_eq!(
            (&one.probe.question, times(&one)),
            (&Question::Connect, (10, 3))
        );
        let exec = json!({ "livenessProbe": { "exec": { "command": ["true"] }}});
        let exec = liveness(exec, Server::Foreign);
        assert_eq!(exec.probe.question, Question::V2OrAnything);
    }
}
