//! Readiness and liveness probes of replicas.

mod client;
mod liveness_probe;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerPort, Probe as PodProbe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use weir_cluster::{Address, ContainerPorts, Endpoints};

/// Time between two failed probes of a ready replica where Weir chooses the probe: its runtime, and the servers that have
/// no probe of their own, answer at once or not at all.
const OWN_PERIOD: Duration = Duration::from_millis(50);

/// Time between two probes where a pod's own probe does not say: Kubernetes' default.
const PERIOD: Duration = Duration::from_secs(10);

/// Time for one probe where a pod does not say: Kubernetes' default.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Failed probes in a row that make a ready replica unready, where a pod does not say: Kubernetes' default.
const FAILURE_THRESHOLD: u32 = 3;

/// The V2 ready call.
const V2_READY: &str = "/v2/health/ready";

/// One kind of probe of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    handler: ProbeHandler,
    endpoint: EndpointKind,
    pub(crate) timeout: Duration,
    /// Time between two probes in a row that count as failures.
    pub(crate) period: Duration,
    pub(crate) failure_threshold: u32,
}

/// A successful answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Success {
    /// The server does what is probed.
    Answered,
    /// The server answers and has no such call, so that whether it listens is all that can be found out.
    NoSuchCall,
}

/// The kind of server that a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// Weir's own runtime, `weir-runtime`.
    Weir,
    /// Any server other than ours.
    Foreign,
}

/// The check that a probe makes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProbeHandler {
    /// The V2 ready call.
    V2,
    /// The V2 ready call of a foreign server: 404 says that it answers and knows no such call, and more
    /// cannot be found out.
    V2OrNotFound,
    /// GET of this path.
    HttpGet(String),
    /// Whether a connection is accepted.
    TcpConnect,
}

/// The endpoint of a replica that is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointKind {
    Http,
    Grpc,
}

impl Probe {
    /// The container's readiness probe, with its times, else the V2 ready call. Weir's own runtime is probed by V2 whatever
    /// the pod says: it knows best.
    pub(crate) fn of(container: &Container, server: ServerKind) -> Result<Self, String> {
        let v2 = |handler| Self {
            handler,
            endpoint: EndpointKind::Http,
            timeout: TIMEOUT,
            period: OWN_PERIOD,
            failure_threshold: FAILURE_THRESHOLD,
        };
        match (server, &container.readiness_probe) {
            (ServerKind::Weir, _) => Ok(v2(ProbeHandler::V2)),
            (ServerKind::Foreign, Some(probe)) => Self::read(probe, container),
            (ServerKind::Foreign, None) => Ok(v2(ProbeHandler::V2OrNotFound)),
        }
    }

    fn read(probe: &PodProbe, container: &Container) -> Result<Self, String> {
        let (handler, port) = match (&probe.http_get, &probe.tcp_socket) {
            (Some(get), _) => (ProbeHandler::get(get.path.as_deref()), &get.port),
            (None, Some(tcp)) => (ProbeHandler::TcpConnect, &tcp.port),
            (None, None) => {
                return Err("without Kubernetes, readinessProbe must be httpGet or tcpSocket".to_owned());
            }
        };
        let seconds = |value| positive(value).map(|seconds| Duration::from_secs(seconds.into()));
        Ok(Self {
            handler,
            endpoint: EndpointKind::of(port, container),
            timeout: seconds(probe.timeout_seconds).unwrap_or(TIMEOUT),
            period: seconds(probe.period_seconds).unwrap_or(PERIOD),
            failure_threshold: positive(probe.failure_threshold).unwrap_or(FAILURE_THRESHOLD),
        })
    }

    /// Whether the V2 ready call gives the same result.
    pub(crate) fn is_v2(&self) -> bool {
        match &self.handler {
            ProbeHandler::V2 => true,
            ProbeHandler::V2OrNotFound | ProbeHandler::TcpConnect => false,
            ProbeHandler::HttpGet(path) => path == V2_READY && self.endpoint == EndpointKind::Http,
        }
    }

    /// Probes the replica. The error is a clause that says how it failed.
    pub(crate) async fn run(&self, endpoints: &Endpoints) -> Result<Success, String> {
        let probing = async {
            match self.target(endpoints)? {
                (Some(path), address) => {
                    let answer = client::get(address, path).await?;
                    let evaluated = self.evaluate(path, answer.status);
                    evaluated.map_err(|cause| answer.explain(cause))
                }
                (None, address) => client::connect(address).await.map(|_| Success::Answered),
            }
        };
        self.in_time(probing).await
    }

    /// Connects to the replica's probed port, whatever the probe calls there.
    pub(crate) async fn connect(&self, endpoints: &Endpoints) -> Result<(), String> {
        let (_, address) = self.target(endpoints)?;
        let connecting = async { client::connect(address).await.map(drop) };
        self.in_time(connecting).await
    }

    async fn in_time<T>(&self, probing: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        match tokio::time::timeout(self.timeout, probing).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {:?}", self.timeout)),
        }
    }

    /// Address to probe, and the path of a GET. A replica that serves gRPC only is probed by a connection.
    fn target<'a>(&'a self, endpoints: &'a Endpoints) -> Result<(Option<&'a str>, &'a Address), String> {
        let path = match &self.handler {
            ProbeHandler::V2 | ProbeHandler::V2OrNotFound => Some(V2_READY),
            ProbeHandler::HttpGet(path) => Some(path.as_str()),
            ProbeHandler::TcpConnect => None,
        };
        match (self.endpoint, &endpoints.http, &endpoints.grpc) {
            (EndpointKind::Http, Some(http), _) | (EndpointKind::Grpc, Some(http), None) => Ok((path, http)),
            (EndpointKind::Http, None, Some(grpc)) | (EndpointKind::Grpc, _, Some(grpc)) => Ok((None, grpc)),
            (_, None, None) => Err("no port is open to probe".to_owned()),
        }
    }

    fn evaluate(&self, path: &str, status: http::StatusCode) -> Result<Success, String> {
        let is_ready = match &self.handler {
            ProbeHandler::V2OrNotFound if status == http::StatusCode::NOT_FOUND => {
                return Ok(Success::NoSuchCall);
            }
            ProbeHandler::V2 | ProbeHandler::V2OrNotFound | ProbeHandler::TcpConnect => status.is_success(),
            // As Kubernetes has it: a redirect is an answer.
            ProbeHandler::HttpGet(_) => status.is_success() || status.is_redirection(),
        };
        if is_ready { Ok(Success::Answered) } else { Err(format!("GET {path} answered {}", status.as_u16())) }
    }
}

/// A number of a pod's; none of them means anything below one.
fn positive(value: Option<i32>) -> Option<u32> {
    let number = value.and_then(|value| u32::try_from(value).ok());
    number.filter(|number| *number > 0)
}

impl ProbeHandler {
    fn get(path: Option<&str>) -> Self {
        let path = path.unwrap_or("/");
        if path.starts_with('/') { Self::HttpGet(path.to_owned()) } else { Self::HttpGet(format!("/{path}")) }
    }
}

impl EndpointKind {
    /// The gRPC one if the probe's port is that of gRPC alone, by name or number.
    fn of(port: &IntOrString, container: &Container) -> Self {
        let number = match port {
            IntOrString::Int(number) => u16::try_from(*number).ok(),
            IntOrString::String(name) => {
                let mut ports = container.ports.iter().flatten();
                let named = |port: &&ContainerPort| port.name.as_ref() == Some(name);
                let port = ports.find(named).map(|port| port.container_port);
                port.and_then(|number| u16::try_from(number).ok())
            }
        };
        let ports = ContainerPorts::of(container);
        if number.is_some() && number == ports.grpc && number != ports.http { Self::Grpc } else { Self::Http }
    }
}
