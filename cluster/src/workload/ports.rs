//! The ports on which a container serves.

use k8s_openapi::api::core::v1::{Container, ContainerPort};

/// The ports of a container, one per protocol; they may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerPorts {
    /// Port for HTTP/1.1 requests.
    pub http: Option<u16>,
    /// Port for gRPC traffic.
    pub grpc: Option<u16>,
}

/// Where a server listens that says nothing: what KServe assumes.
const DEFAULT_PORT: u16 = 8080;

/// Flags that name the port for HTTP, most telling first. `--port` is gRPC's where a server has
/// another for HTTP, as OpenVINO and TensorFlow Serving do.
const HTTP_FLAGS: [&str; 5] = ["http-port", "http_port", "rest-port", "rest_port", "rest_api_port"];
const GRPC_FLAGS: [&str; 2] = ["grpc-port", "grpc_port"];
const ANY_FLAG: &str = "port";

/// Endings of variables that name the ports of servers without flags for them, as MLServer's do.
const HTTP_VARIABLE: &str = "_HTTP_PORT";
const GRPC_VARIABLE: &str = "_GRPC_PORT";

impl ContainerPorts {
    /// The ports that the container declares: those named `grpc*` or `h2c*` are gRPC, the first other is HTTP.
    /// Of a protocol without a declared port, what flags such as `--http-port` or variables such as
    /// `MLSERVER_HTTP_PORT` say; without any, 8080 for both, the protocol told apart by the first bytes.
    #[must_use]
    pub fn of(container: &Container) -> Self {
        let said = [Self::declared(container), Self::by_flags(container), Self::by_variables(container)];
        let ports = said.into_iter().flatten().reduce(Self::with);
        ports.unwrap_or(Self { http: Some(DEFAULT_PORT), grpc: Some(DEFAULT_PORT) })
    }

    /// These, and of a protocol without one the other's, unless that is a port of these under another name.
    fn with(self, other: Self) -> Self {
        let is_new = |port: &u16| ![self.http, self.grpc].contains(&Some(*port));
        Self { http: self.http.or(other.http.filter(is_new)), grpc: self.grpc.or(other.grpc.filter(is_new)) }
    }

    /// The ports that the field `ports` declares.
    #[must_use]
    pub fn declared(container: &Container) -> Option<Self> {
        let ports = container.ports.as_deref().unwrap_or_default();
        let number = |port: &ContainerPort| u16::try_from(port.container_port).ok();
        let ports = Self {
            http: ports.iter().find(|port| !is_grpc(port)).and_then(number),
            grpc: ports.iter().find(|port| is_grpc(port)).and_then(number),
        };
        ports.is_some().then_some(ports)
    }

    fn by_flags(container: &Container) -> Option<Self> {
        let command = container.command.iter().flatten();
        let words: Vec<&str> = command.chain(container.args.iter().flatten()).map(String::as_str).collect();
        let any = |names: &[&str]| names.iter().find_map(|name| flag(&words, name));
        let (http, grpc) = (any(&HTTP_FLAGS), any(&GRPC_FLAGS));
        let plain = flag(&words, ANY_FLAG);
        let ports = Self { http: http.or(plain), grpc: grpc.or(plain.filter(|_| http.is_some())) };
        ports.is_some().then_some(ports)
    }

    fn by_variables(container: &Container) -> Option<Self> {
        let port = |ending: &str| {
            let mut variables = container.env.iter().flatten();
            let named = variables.find(|variable| variable.name.ends_with(ending))?;
            named.value.as_ref()?.parse().ok()
        };
        let ports = Self { http: port(HTTP_VARIABLE), grpc: port(GRPC_VARIABLE) };
        ports.is_some().then_some(ports)
    }

    fn is_some(self) -> bool {
        self.http.is_some() || self.grpc.is_some()
    }
}

fn is_grpc(port: &ContainerPort) -> bool {
    let name = port.name.as_deref().unwrap_or_default();
    name.starts_with("grpc") || name.starts_with("h2c")
}

/// The value of `--name=N` or `--name N`; a value that is no port is the program's to refuse. Of a flag that is given twice
/// the last counts, as in most programs: a service's arguments come after those of its runtime.
fn flag(words: &[&str], name: &str) -> Option<u16> {
    let mut words = words.iter();
    let mut last = None;
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix("--").and_then(|w| w.strip_prefix(name)) else {
            continue;
        };
        let value = match rest.strip_prefix('=') {
            Some(value) => value,
            None if rest.is_empty() => words.next().copied().unwrap_or_default(),
            None => continue,
        };
        last = value.parse().ok();
    }
    last
}
