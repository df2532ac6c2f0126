//! Endpoints of a revision's Service as replicas: everything that a gateway knows of them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt;
use weir_cluster::{Address, Endpoints, Phase, Replica, RevisionName};

use crate::objects::{GRPC, HTTP, METRICS, revision_of};

/// Label with the name of the Service that an EndpointSlice belongs to.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Label with the name of the controller that makes an EndpointSlice.
const MADE_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Value of [`MADE_BY`] on slices of the pods that a Service selects. Other slices hold addresses that people write.
const OF_PODS: &str = "endpointslice-controller.k8s.io";

/// Replicas of a revision, sorted by name. Most revisions have one or none, and a list needs the least memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replicas(Vec<Replica>);

impl Replicas {
    /// Returns the replica of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Replica> {
        self.place(name).ok().map(|place| &self.0[place])
    }

    /// Inserts a replica, replacing one of the same name.
    pub(crate) fn insert(&mut self, replica: Replica) {
        match self.place(&replica.name) {
            Ok(place) => self.0[place] = replica,
            Err(place) => self.0.insert(place, replica),
        }
    }

    /// Removes the replica of this name.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Ok(place) = self.place(name) {
            self.0.remove(place);
        }
    }

    /// True if there are no replicas.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the replicas sorted by name.
    pub(crate) fn to_vec(&self) -> Vec<Replica> {
        self.0.clone()
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|replica| (*replica.name).cmp(name))
    }
}

impl FromIterator<Replica> for Replicas {
    fn from_iter<I: IntoIterator<Item = Replica>>(all: I) -> Self {
        let mut replicas = Self::default();
        all.into_iter().for_each(|replica| replicas.insert(replica));
        replicas
    }
}

/// Returns the revision whose pods a slice lists. Any Service can carry a revision's label, which is copied to its
/// slices, so only slices of the revision's own Service count, and only those that Kubernetes makes from pods.
pub(crate) fn revision(slice: &EndpointSlice) -> Option<RevisionName> {
    let revision = revision_of(slice)?;
    let has = |label: &str, value: &str| slice.labels().get(label).is_some_and(|is| is == value);
    let is_own = has(SERVICE_NAME, revision.as_str()) && has(MADE_BY, OF_PODS);
    is_own.then_some(revision)
}

/// Returns the replicas in one slice of a revision's Service; `before` are the known replicas of all its slices.
pub(crate) fn replicas(slice: &EndpointSlice, before: &Replicas) -> Vec<Replica> {
    let endpoints = slice.endpoints.iter().flatten();
    endpoints.filter_map(|endpoint| replica(slice, endpoint, before)).collect()
}

/// Returns the replica behind an endpoint. Facts that only its pod shows, such as a failed start, are missing.
fn replica(slice: &EndpointSlice, endpoint: &Endpoint, before: &Replicas) -> Option<Replica> {
    let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    let pod = endpoint.target_ref.as_ref()?;
    if pod.kind.as_deref() != Some("Pod") || pod.namespace != slice.namespace() {
        return None;
    }
    let name: Arc<str> = pod.name.as_deref()?.into();
    let at = |port: u16| Address::Tcp(SocketAddr::new(address, port));
    let phase = phase(endpoint, before.get(&name));
    Some(Replica {
        endpoints: Endpoints {
            http: port(slice, HTTP).map(at),
            grpc: port(slice, GRPC).map(at),
            metrics: port(slice, METRICS).map(at),
        },
        ..Replica::new(name, phase)
    })
}

/// True if the replica has an IPv4 address. A dual-stack pod is listed in one slice per address family, and its IPv4
/// address is preferred: the server may not listen on IPv6, and a gateway may have no IPv6.
pub(crate) fn has_ipv4(replica: &Replica) -> bool {
    let endpoints = &replica.endpoints;
    let mut all = endpoints.http.iter().chain(&endpoints.grpc);
    all.any(is_ipv4)
}

/// True if the address is an IPv4 address.
pub(crate) fn is_ipv4(address: &Address) -> bool {
    match address {
        Address::Tcp(address) => address.is_ipv4(),
        Address::Unix(_) => false,
    }
}

/// Returns the phase by the pod's readiness (`serving`). The condition `ready` is not used: it is always true for a
/// Service that publishes not-ready addresses.
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

/// Returns the number of a slice's port.
pub(crate) fn port(slice: &EndpointSlice, name: &str) -> Option<u16> {
    let mut ports = slice.ports.iter().flatten();
    let port = ports.find(|port| port.name.as_deref() == Some(name))?.port?;
    u16::try_from(port).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(conditions: &Value) -> EndpointSlice {
        let pod =
            |kind: &str, name: &str, namespace: &str| json!({ "kind": kind, "name": name, "namespace": namespace });
        serde_json::from_value(json!({
            "metadata": { "name": "digits-predictor-00001-abc", "namespace": "team" },
            "addressType": "IPv4",
            "endpoints": [
                {
                    "addresses": ["10.0.0.7"], "conditions": conditions,
                    "targetRef": pod("Pod", "digits-1", "team"),
                },
                { "addresses": ["10.0.0.8"] },
                { "addresses": ["10.0.0.9"], "targetRef": pod("Node", "digits-2", "team") },
                { "addresses": ["10.0.0.9"], "targetRef": pod("Pod", "digits-3", "other") },
            ],
            "ports": [
                { "name": "http", "port": 8080 },
                { "name": "grpc", "port": 9000 },
                { "name": "metrics", "port": 8002 },
            ],
        }))
        .unwrap()
    }

    fn seen(conditions: &Value, before: Option<&Replica>) -> Replica {
        let mut replicas = replicas(&slice(conditions), &before.cloned().into_iter().collect());
        assert_eq!(replicas.len(), 1, "only pods of the namespace are replicas");
        replicas.remove(0)
    }

    #[test]
    fn a_replica_has_the_pods_name_and_the_ports_of_the_service() {
        let replica = seen(&json!({ "ready": true, "serving": true }), None);
        assert_eq!((&*replica.name, replica.phase), ("digits-1", Phase::Ready));
        let address = |address: Option<Address>| address.unwrap().to_string();
        assert_eq!(address(replica.endpoints.http), "10.0.0.7:8080");
        assert_eq!(address(replica.endpoints.grpc), "10.0.0.7:9000");
        assert_eq!(address(replica.endpoints.metrics), "10.0.0.7:8002");
    }

    #[test]
    fn a_slice_belongs_to_the_revision_of_its_service() {
        let of = |service: &str, made_by: &str| {
            let mut slice = slice(&json!({}));
            let labels = [("weir.dev/revision", "digits-predictor-00001"), (SERVICE_NAME, service), (MADE_BY, made_by)];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            slice.metadata.labels = Some(labels.into());
            revision(&slice)
        };
        let own = "digits-predictor-00001";
        assert_eq!(of(own, OF_PODS).unwrap().as_str(), own);
        assert_eq!(of("other", OF_PODS), None);
        let mirrored = "endpointslicemirroring-controller.k8s.io";
        assert_eq!(of(own, mirrored), None, "mirrored slices come from Endpoints that people write");
    }

    #[test]
    fn conditions_determine_the_phase() {
        // `ready` is always true here: the Service publishes not-ready addresses.
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

    #[test]
    fn replicas_are_sorted_with_one_of_each_name() {
        let named = |name: &str, restarts| Replica { name: name.into(), restarts, ..seen(&json!({}), None) };
        let all = [named("b", 0), named("a", 0), named("b", 1)];
        let mut replicas: Replicas = all.into_iter().collect();
        let is = |replicas: &Replicas| replicas.to_vec().into_iter().map(|r| (r.name, r.restarts)).collect::<Vec<_>>();
        assert_eq!(is(&replicas), [("a".into(), 0), ("b".into(), 1)]);
        assert_eq!(replicas.get("b").map(|b| b.restarts), Some(1));
        replicas.remove("c");
        replicas.remove("a");
        assert_eq!(is(&replicas), [("b".into(), 1)]);
        replicas.remove("b");
        assert!(replicas.is_empty());
    }
}
