//! The ports on which a container serves.

use k8s_openapi::api::core::v1::{Container, ContainerPort};

/// Serving ports of a container, one per protocol; both may be the same port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerPorts {
    /// Port for HTTP/1.1 requests; None if no port is known for them.
    pub http: Option<u16>,
    /// Port for gRPC requests; None if no port is known for them.
    pub grpc: Option<u16>,
}

/// Port of a server without any declaration, as in KServe.
const DEFAULT_PORT: u16 = 8080;

/// Flags that set the HTTP port, most specific first. A plain `--port` is the gRPC port if the server has a separate
/// flag for HTTP, as with OpenVINO and TensorFlow Serving.
const HTTP_FLAGS: [&str; 5] = ["http-port", "http_port", "rest-port", "rest_port", "rest_api_port"];
const GRPC_FLAGS: [&str; 2] = ["grpc-port", "grpc_port"];
const ANY_FLAG: &str = "port";

/// Suffixes of environment variables that set the ports of servers without flags, such as MLServer.
const HTTP_VARIABLE: &str = "_HTTP_PORT";
const GRPC_VARIABLE: &str = "_GRPC_PORT";

impl ContainerPorts {
    /// Returns the serving ports of a container. Among declared ports, the first named `grpc*` or `h2c*` is for gRPC
    /// and the first other one for HTTP. For a protocol without a declared port, flags such as `--http-port` and then
    /// variables such as `MLSERVER_HTTP_PORT` are used. Without any of these, 8080 serves both protocols, which are
    /// distinguished by the first bytes of a connection.
    #[must_use]
    pub fn of(container: &Container) -> Self {
        let sources = [Self::declared(container), Self::by_flags(container), Self::by_variables(container)];
        let ports = sources.into_iter().flatten().reduce(Self::with);
        ports.unwrap_or(Self { http: Some(DEFAULT_PORT), grpc: Some(DEFAULT_PORT) })
    }

    /// Fills in missing protocols from `other`, except with a port that is already used for the other protocol.
    fn with(self, other: Self) -> Self {
        let is_new = |port: &u16| ![self.http, self.grpc].contains(&Some(*port));
        Self { http: self.http.or(other.http.filter(is_new)), grpc: self.grpc.or(other.grpc.filter(is_new)) }
    }

    /// Returns the ports declared in the field `ports`; `None` if it declares none.
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

/// Returns the value of `--name=N` or `--name N`; an invalid port counts as unset and is left to the program to refuse.
/// If a flag is given twice the last one counts, as in most programs: a service's arguments come after those of its
/// runtime.
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
