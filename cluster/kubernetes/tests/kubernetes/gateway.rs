//! Stand-in for a gateway's pod: it serves a test's report, and is an endpoint of the gateways' Service.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::Report;
use weir_cluster_kubernetes::Options;
use weir_ops::admin::{Admin, Health};

use crate::server::SYSTEM;

/// Pod of a gateway. Dropping it removes its endpoint.
pub(crate) struct GatewayPod {
    slices: Api<EndpointSlice>,
    name: String,
    _serving: AbortOnDropHandle<()>,
    _reports: watch::Sender<Arc<Report>>,
}

impl GatewayPod {
    pub(crate) async fn start(client: &Client, name: &str, report: Report) -> Self {
        let listener = TcpListener::bind((own_address(), 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (reports, watched) = watch::channel(Arc::new(report));
        let registry = Arc::new(Registry::default());
        let admin = Admin::new(listener, registry, Arc::new(|| Health::Serving))
            .with_service(weir_cluster_reports::PATH, weir_cluster_reports::service(watched));
        let serving = tokio::spawn(admin.serve(CancellationToken::new()));
        let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), SYSTEM);
        slices.create(&PostParams::default(), &slice(name, port)).await.unwrap();
        Self { slices, name: name.to_owned(), _serving: AbortOnDropHandle::new(serving), _reports: reports }
    }
}

impl Drop for GatewayPod {
    fn drop(&mut self) {
        let (slices, name) = (self.slices.clone(), self.name.clone());
        tokio::spawn(async move { slices.delete(&name, &DeleteParams::default()).await });
    }
}

/// Returns an address of this machine that an endpoint may have, which excludes 127.0.0.1. Nothing is sent to find it.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    if let Err(error) = socket.connect("198.51.100.1:9") {
        panic!("this test needs a network interface besides the loopback: {error}");
    }
    socket.local_addr().unwrap().ip()
}

fn slice(name: &str, port: u16) -> EndpointSlice {
    let mut slice = EndpointSlice { address_type: "IPv4".to_owned(), ..EndpointSlice::default() };
    slice.metadata.name = Some(name.to_owned());
    let of_gateways = ("kubernetes.io/service-name", Options::GATEWAY);
    let labels = [of_gateways].map(|(key, value)| (key.to_owned(), value.to_owned()));
    slice.metadata.labels = Some(labels.into());
    let pod =
        ObjectReference { kind: Some("Pod".to_owned()), name: Some(name.to_owned()), ..ObjectReference::default() };
    slice.endpoints = Some(vec![Endpoint {
        addresses: vec![own_address().to_string()],
        target_ref: Some(pod),
        ..Endpoint::default()
    }]);
    let named = |name: &str, port: u16| EndpointPort {
        name: Some(name.to_owned()),
        port: Some(port.into()),
        ..EndpointPort::default()
    };
    slice.ports = Some(vec![named("http", 8080), named("admin", port)]);
    slice
}
