//! How a replica is asked whether it is ready, and whether it lives.

mod ask;
mod live;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerPort, Probe as PodProbe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use weir_cluster::{Address, ContainerPorts, Endpoints};

pub(crate) use live::Liveness;

/// Time for one answer where a pod does not say: Kubernetes' default.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Bad answers in a row that make a ready replica unready, where a pod does not say: Kubernetes' default.
const PATIENCE: u32 = 3;

/// The V2 ready call.
const V2_READY: &str = "/v2/health/ready";

/// How a replica is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    question: Question,
    door: Door,
    pub(crate) timeout: Duration,
    pub(crate) patience: u32,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// Weir's own runtime.
    Weir,
    /// Anything else.
    Foreign,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Question {
    /// The V2 ready call.
    V2,
    /// The V2 ready call of a foreign server: 404 says that it answers and knows no such call, and more
    /// cannot be found out.
    V2OrAnything,
    /// GET of this path.
    Get(String),
    /// Whether a connection is accepted.
    Connect,
}

/// Which of a replica's endpoints is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Http,
    Grpc,
}

impl Probe {
    /// What the container's readiness probe says, else the V2 ready call. Weir's own runtime is asked
    /// by V2 whatever the pod says: it knows best.
    pub(crate) fn of(container: &Container, server: Server) -> Result<Self, String> {
        let v2 = |question| Self {
            question,
            door: Door::Http,
            timeout: TIMEOUT,
            patience: PATIENCE,
        };
        match (server, &container.readiness_probe) {
            (Server::Weir, _) => Ok(v2(Question::V2)),
            (Server::Foreign, Some(probe)) => Self::read(probe, container),
            (Server::Foreign, None) => Ok(v2(Question::V2OrAnything)),
        }
    }

    fn read(probe: &PodProbe, container: &Container) -> Result<Self, String> {
        let (question, port) = match (&probe.http_get, &probe.tcp_socket) {
            (Some(get), _) => (Question::get(get.path.as_deref()), &get.port),
            (None, Some(tcp)) => (Question::Connect, &tcp.port),
            (None, None) => {
                return Err(
                    "of readiness probes, httpGet and tcpSocket can be had without \
                            Kubernetes, not exec and grpc"
                        .to_owned(),
                );
            }
        };
        let timeout = positive(probe.timeout_seconds).map(|s| Duration::from_secs(s.into()));
        Ok(Self {
            question,
            door: Door::of(port, container),
            timeout: timeout.unwrap_or(TIMEOUT),
            patience: positive(probe.failure_threshold).unwrap_or(PATIENCE),
        })
    }

    /// Whether anybody who makes the V2 ready call finds out the same.
    pub(crate) fn is_v2(&self) -> bool {
        match &self.question {
            Question::V2 => true,
            Question::V2OrAnything | Question::Connect => false,
            Question::Get(path) => path == V2_READY && self.door == Door::Http,
        }
    }

    /// Asks. The error is a clause that says what was answered.
    pub(crate) async fn ask(&self, endpoints: &Endpoints) -> Result<(), String> {
        let asking = async {
            match self.place(endpoints)? {
                (Some(path), address) => self.judge(path, ask::get(address, path).await?),
                (None, address) => ask::connect(address).await.map(drop),
            }
        };
        match tokio::time::timeout(self.timeout, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {:?}", self.timeout)),
        }
    }

    /// Where to ask, and for which path. One that serves gRPC only is asked by a connection.
    fn place<'a>(
        &'a self,
        endpoints: &'a Endpoints,
    ) -> Result<(Option<&'a str>, &'a Address), String> {
        let path = match &self.question {
            Question::V2 | Question::V2OrAnything => Some(V2_READY),
            Question::Get(path) => Some(path.as_str()),
            Question::Connect => None,
        };
        match (self.door, &endpoints.http, &endpoints.grpc) {
            (Door::Http, Some(http), _) | (Door::Grpc, Some(http), None) => Ok((path, http)),
            (Door::Http, None, Some(grpc)) | (Door::Grpc, _, Some(grpc)) => Ok((None, grpc)),
            (_, None, None) => Err("it listens nowhere".to_owned()),
        }
    }

    fn judge(&self, path: &str, status: http::StatusCode) -> Result<(), String> {
        let is_ready = match &self.question {
            Question::V2 | Question::Connect => status.is_success(),
            Question::V2OrAnything => status.is_success() || status == http::StatusCode::NOT_FOUND,
            // As Kubernetes has it: a redirect is an answer.
            Question::Get(_) => status.is_success() || status.is_redirection(),
        };
        match is_ready {
            true => Ok(()),
            false => Err(format!("GET {path} answered {}", status.as_u16())),
        }
    }
}

/// A number of a pod's; none of them means anything below one.
fn positive(value: Option<i32>) -> Option<u32> {
    let number = value.and_then(|value| u32::try_from(value).ok());
    number.filter(|number| *number > 0)
}

impl Question {
    fn get(path: Option<&str>) -> Self {
        let path = path.unwrap_or("/");
        match path.starts_with('/') {
            true => Self::Get(path.to_owned()),
            false => Self::Get(format!("/{path}")),
        }
    }
}

impl Door {
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
        match number.is_some() && number == ports.grpc && number != ports.http {
            true => Self::Grpc,
            false => Self::Http,
        }
    }
}
