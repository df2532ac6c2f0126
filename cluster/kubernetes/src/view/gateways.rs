//! Endpoints of the gateways' Service as gateways.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use weir_cluster::{Address, Gateway};

use crate::view::endpoints::port;

/// Name of the port for requests in the gateways' Service.
const SERVING: &str = "http";
/// Name of the port for metrics and reports in the gateways' Service.
const ADMIN: &str = "admin";

/// Returns the ready gateways in one slice of their Service.
pub(crate) fn gateways(slice: &EndpointSlice) -> Vec<Gateway> {
    let endpoints = slice.endpoints.iter().flatten();
    endpoints.filter_map(|endpoint| gateway(slice, endpoint)).collect()
}

fn gateway(slice: &EndpointSlice, endpoint: &Endpoint) -> Option<Gateway> {
    let is_ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
    if is_ready == Some(false) {
        return None;
    }
    let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    let name = endpoint.target_ref.as_ref().and_then(|pod| pod.name.clone());
    let at = |port| Address::Tcp(SocketAddr::new(address, port));
    Some(Gateway {
        name: name.unwrap_or_else(|| address.to_string()).into(),
        serving: at(port(slice, SERVING)?),
        admin: port(slice, ADMIN).map(at),
    })
}
