//! Readiness, liveness and startup probes of replicas.

mod client;
mod liveness_probe;
mod startup_probe;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerPort, Probe as PodProbe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use weir_cluster::{Address, ContainerPorts, Endpoints};

/// Time between two failed probes of a ready replica if the pod has no readiness probe of its own. Weir's runtime and
/// other servers probed by Weir answer at once or not at all.
const OWN_PERIOD: Duration = Duration::from_millis(50);

/// Default period of a pod's own probe, the same as in Kubernetes.
const PERIOD: Duration = Duration::from_secs(10);

/// Default timeout of one probe, the same as in Kubernetes.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Default number of failed probes in a row that make a ready replica unready, the same as in Kubernetes.
const FAILURE_THRESHOLD: u32 = 3;

/// Default number of consecutive successful probes that make a replica ready; the same as in Kubernetes.
const SUCCESS_THRESHOLD: u32 = 1;

/// Path of the readiness call of the V2 protocol.
const V2_READY: &str = "/v2/health/ready";

/// A readiness, liveness or startup probe of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    handler: ProbeHandler,
    endpoint: EndpointKind,
    pub(crate) timeout: Duration,
    /// Time between two consecutive failed probes.
    pub(crate) period: Duration,
    pub(crate) failure_threshold: u32,
    /// Time from the start of the program to the first probe.
    pub(crate) initial_delay: Duration,
    /// Consecutive successful probes, one every `period`, that make a replica ready.
    pub(crate) success_threshold: u32,
}

/// Result of a successful probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Success {
    /// The server answered the call.
    Answered,
    /// The server answers 404 to the V2 ready call: it listens, and more cannot be determined.
    NoSuchCall,
}

/// The kind of server that a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// Weir's own runtime, `weir-runtime`.
    Weir,
    /// Any server other than Weir's runtime.
    Foreign,
}

/// The check that a probe makes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProbeHandler {
    /// The V2 ready call must succeed.
    V2,
    /// The V2 ready call must succeed or return 404: a foreign server that answers 404 listens but does not implement
    /// the call, and more cannot be determined.
    V2OrNotFound,
    /// A GET of this path must succeed.
    HttpGet(String),
    /// A connection must be accepted.
    TcpConnect,
}

/// Endpoint of the replica that is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointKind {
    Http,
    Grpc,
}

impl Probe {
    /// Returns the container's readiness probe with its times, or the V2 ready call by default. Weir's own runtime is
    /// always probed by the V2 call, which is more precise than any probe of the pod.
    pub(crate) fn of(container: &Container, server: ServerKind) -> Result<Self, String> {
        let v2 = |handler| Self {
            handler,
            endpoint: EndpointKind::Http,
            timeout: TIMEOUT,
            period: OWN_PERIOD,
            failure_threshold: FAILURE_THRESHOLD,
            initial_delay: Duration::ZERO,
            success_threshold: SUCCESS_THRESHOLD,
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
            initial_delay: seconds(probe.initial_delay_seconds).unwrap_or(Duration::ZERO),
            success_threshold: positive(probe.success_threshold).unwrap_or(SUCCESS_THRESHOLD),
        })
    }

    /// Returns true if the probe is equivalent to the V2 ready call.
    pub(crate) fn is_v2(&self) -> bool {
        match &self.handler {
            ProbeHandler::V2 => true,
            ProbeHandler::V2OrNotFound | ProbeHandler::TcpConnect => false,
            ProbeHandler::HttpGet(path) => path == V2_READY && self.endpoint == EndpointKind::Http,
        }
    }

    /// Runs the probe once. The error is a clause that says how the probe failed.
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

    /// Connects to the probed port without making the probe's call.
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

    /// Returns the address to probe and the path of the GET. A replica that serves only gRPC is probed by a connection,
    /// without a path.
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
            // Kubernetes accepts redirects as well.
            ProbeHandler::HttpGet(_) => status.is_success() || status.is_redirection(),
        };
        if is_ready { Ok(Success::Answered) } else { Err(format!("GET {path} answered {}", status.as_u16())) }
    }
}

/// Returns a number of the pod's probe if it is at least 1; smaller values count as unset.
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
    /// Returns the gRPC endpoint if the probe's port, by name or number, is used for gRPC only.
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
