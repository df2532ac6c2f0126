//! Endpoints of a revision's Service, as replicas: all that a gateway sees of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use weir_cluster::{Address, Endpoints, Phase, Replica};

use crate::objects::{GRPC, HTTP};

/// The replicas of a revision by name.
pub(crate) type Replicas = BTreeMap<Arc<str>, Replica>;

/// The replicas in one slice of a revision's Service; `before` are those that are known, in whichever slice.
pub(crate) fn replicas(slice: &EndpointSlice, before: &Replicas) -> Vec<Replica> {
    let endpoints = slice.endpoints.iter().flatten();
    endpoints
        .filter_map(|endpoint| replica(slice, endpoint, before))
        .collect()
}

/// The replica behind an endpoint. What only its pod says, such as why it does not start, is not known.
fn replica(slice: &EndpointSlice, endpoint: &Endpoint, before: &Replicas) -> Option<Replica> {
    let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    let pod = endpoint.target_ref.as_ref()?;
    let name: Arc<str> = pod.name.as_deref()?.into();
    let at = |port: u16| Address::Tcp(SocketAddr::new(address, port));
    Some(Replica {
        phase: phase(endpoint, before.get(&name)),
        endpoints: Endpoints {
            http: port(slice, HTTP).map(at),
            grpc: port(slice, GRPC).map(at),
        },
        restarts: 0,
        failure: None,
        name,
    })
}

/// The phase, by what the pod's readiness says. The condition `ready` says less: of a Service that publishes its
/// endpoints before they are, it is always true.
fn phase(endpoint: &Endpoint, before: Option<&Replica>) -> Phase {
    let conditions = endpoint.conditions.as_ref();
    let has = |value: Option<bool>| value == Some(true);
    let is_terminating = conditions.is_some_and(|c| has(c.terminating));
    let is_serving = conditions.is_some_and(|c| has(c.serving));
    let was_ready = before.is_some_and(|b| matches!(b.phase, Phase::Ready | Phase::Unready));
    match (is_terminating, is_serving, was_ready) {
        (true, _, _) => Phase::Terminating,
        (false, true, _) => Phase::Ready,
        (false, false, true) => Phase::Unready,
        (false, false, false) => Phase::Starting,
    }
}

/// The number of a slice's port.
pub(crate) fn port(slice: &EndpointSlice, name: &str) -> Option<u16> {
    let mut ports = slice.ports.iter().flatten();
    let port = ports
        .find(|port| port.name.as_deref() == Some(name))?
        .port?;
    u16::try_from(port).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(conditions: &Value) -> EndpointSlice {
        serde_json::from_value(json!({
            "addressType": "IPv4",
            "endpoints": [
                {
                    "addresses": ["10.0.0.7"], "conditions": conditions,
                    "targetRef": { "kind": "Pod", "name": "digits-1" },
                },
                { "addresses": ["10.0.0.8"] },
            ],
            "ports": [{ "name": "http", "port": 8080 }, { "name": "grpc", "port": 9000 }],
        }))
        .unwrap()
    }

    fn seen(conditions: &Value, before: Option<&Replica>) -> Replica {
        let before = before.map(|before| (before.name.clone(), before.clone()));
        let mut replicas = replicas(&slice(conditions), &before.into_iter().collect());
        assert_eq!(replicas.len(), 1, "what is no pod is no replica");
        replicas.remove(0)
    }

    #[test]
    fn a_replica_has_the_pods_name_and_the_ports_of_the_service() {
        let replica = seen(&json!({ "ready": true, "serving": true }), None);
        assert_eq!((&*replica.name, replica.phase), ("digits-1", Phase::Ready));
        let address = |address: Option<Address>| address.unwrap().to_string();
        assert_eq!(address(replica.endpoints.http), "10.0.0.7:8080");
        assert_eq!(address(replica.endpoints.grpc), "10.0.0.7:9000");
    }

    #[test]
    fn conditions_are_phases() {
        // `ready` is always true here.
        let starting = json!({ "ready": true, "serving": false, "terminating": false });
        let serving = json!({ "ready": true, "serving": true, "terminating": false });
        let ending = json!({ "ready": true, "serving": true, "terminating": true });
        let starts = seen(&starting, None);
        assert_eq!(starts.phase, Phase::Starting);
        let ready = seen(&serving, Some(&starts));
        assert_eq!(ready.phase, Phase::Ready);
        let unready = seen(&starting, Some(&ready));
        assert_eq!(unready.phase, Phase::Unready);
        assert_eq!(seen(&starting, Some(&unready)).phase, Phase::Unready);
        assert_eq!(seen(&ending, Some(&ready)).phase, Phase::Terminating);
    }
}
