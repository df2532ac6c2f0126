//! The ports of a replica.

mod pool;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use weir_cluster::{Address, ContainerPorts, Endpoints};

use crate::expand::mentions;
use pool::PortLease;
pub(crate) use pool::PortPool;

/// Variable with the port on which a command serves HTTP.
pub(crate) const PORT: &str = "PORT";

/// Variable with the port on which a command serves gRPC.
pub(crate) const GRPC_PORT: &str = "GRPC_PORT";

/// Variable with the port on which a command serves its metrics, if not on the port for HTTP.
pub(crate) const METRICS_PORT: &str = "METRICS_PORT";

/// Ports of a command, before free ones are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortPlan {
    /// The command serves HTTP on `$(PORT)` and gRPC on `$(GRPC_PORT)`; each run gets free ports.
    Two,
    /// The command serves both protocols on `$(PORT)`.
    One,
    /// The command serves only gRPC, on `$(GRPC_PORT)`.
    Grpc,
    /// The command uses neither variable, or the container sets them itself, so it always listens on these ports and
    /// can have only one replica.
    Fixed(ContainerPorts),
}

/// Port of a command's metrics, before a free one is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricsPlan {
    /// The metrics are at the port for HTTP.
    WithHttp,
    /// The command serves them on `$(METRICS_PORT)`; each run gets a free port.
    Free,
    /// The command serves them on this port in each run.
    Fixed(u16),
}

/// Ports leased for one run; dropping this value releases them.
#[derive(Debug)]
pub(crate) struct LeasedPorts {
    pub(crate) ports: Ports,
    _leases: Vec<PortLease>,
}

/// Ports of one run of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) http: Option<u16>,
    pub(crate) grpc: Option<u16>,
    /// `None` if the metrics are at the port for HTTP.
    pub(crate) metrics: Option<u16>,
}

impl MetricsPlan {
    /// Determines the port of the metrics from a command's words and the values of its own variables. `declared` is the
    /// port of the pod's annotations.
    pub(crate) fn of(words: &[String], env: &[(String, String)], declared: Option<u16>) -> Self {
        let is_own = env.iter().any(|(name, value)| name == METRICS_PORT && !mentions(value, METRICS_PORT));
        let mut texts = words.iter().chain(env.iter().map(|(_, value)| value));
        match declared {
            _ if !is_own && texts.any(|text| mentions(text, METRICS_PORT)) => Self::Free,
            Some(port) => Self::Fixed(port),
            None => Self::WithHttp,
        }
    }

    fn assign(self, pool: &PortPool) -> Result<(Option<u16>, Option<PortLease>), String> {
        match self {
            Self::WithHttp => Ok((None, None)),
            Self::Free => pool.any().map(|lease| (Some(lease.port()), Some(lease))),
            Self::Fixed(port) => Ok((Some(port), None)),
        }
    }
}

impl PortPlan {
    /// Determines the ports from a command's words and the values of its own variables. If the command uses neither
    /// port variable, the ports are those that the container sets in the variables, or else `declared`.
    pub(crate) fn of(words: &[String], env: &[(String, String)], declared: ContainerPorts) -> Result<Self, String> {
        let own: BTreeMap<_, _> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let values = own.values().copied();
        let texts: Vec<&str> = words.iter().map(String::as_str).chain(values).collect();
        let free = |name| !is_set(&own, name) && texts.iter().any(|text| mentions(text, name));
        Ok(match (free(PORT), free(GRPC_PORT)) {
            (true, true) => Self::Two,
            (true, false) => Self::One,
            (false, true) => Self::Grpc,
            (false, false) => Self::Fixed(ContainerPorts {
                http: set(&own, PORT)?.or(declared.http),
                grpc: set(&own, GRPC_PORT)?.or(declared.grpc),
            }),
        })
    }

    /// Maximum number of concurrent replicas.
    pub(crate) fn max_replicas(self) -> usize {
        match self {
            Self::Two | Self::One | Self::Grpc => usize::MAX,
            Self::Fixed(_) => 1,
        }
    }

    /// Returns the fixed ports, on which every run listens; empty if each run gets free ones.
    pub(crate) fn fixed(self) -> Vec<u16> {
        match self {
            Self::Two | Self::One | Self::Grpc => Vec::new(),
            Self::Fixed(ContainerPorts { http, grpc }) => {
                let grpc = grpc.filter(|grpc| Some(*grpc) != http);
                http.into_iter().chain(grpc).collect()
            }
        }
    }

    /// Leases ports for the next run. A free port may still be taken by another process before the command listens on
    /// it; the command then exits, and the next run gets other ports.
    ///
    /// # Errors
    /// A clause, when a fixed port is in use or no port is free.
    pub(crate) fn assign(self, metrics: MetricsPlan, pool: &PortPool) -> Result<LeasedPorts, String> {
        let (metrics, metrics_lease) = metrics.assign(pool)?;
        let (http, grpc) = match self {
            Self::Two => (Some(pool.any()?), Some(pool.any()?)),
            Self::One => (Some(pool.any()?), None),
            Self::Grpc => (None, Some(pool.any()?)),
            Self::Fixed(ContainerPorts { http, grpc }) => {
                let grpc = grpc.filter(|grpc| Some(*grpc) != http);
                let this = |port: Option<u16>| port.map(|port| pool.this(port)).transpose();
                (this(http)?, this(grpc)?)
            }
        };
        let port = |lease: &Option<PortLease>| lease.as_ref().map(PortLease::port);
        let ports = match self {
            Self::One => Ports::new(port(&http), port(&http)),
            Self::Two | Self::Grpc => Ports::new(port(&http), port(&grpc)),
            Self::Fixed(ContainerPorts { http, grpc }) => Ports::new(http, grpc),
        };
        let leases = http.into_iter().chain(grpc).chain(metrics_lease);
        Ok(LeasedPorts { ports: Ports { metrics, ..ports }, _leases: leases.collect() })
    }
}

impl Ports {
    fn new(http: Option<u16>, grpc: Option<u16>) -> Self {
        Self { http, grpc, metrics: None }
    }

    /// Returns the addresses of the ports on this machine.
    pub(crate) fn endpoints(self) -> Endpoints {
        let here = |port: u16| Address::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        Endpoints { http: self.http.map(here), grpc: self.grpc.map(here), metrics: self.metrics.map(here) }
    }
}

/// Returns true if the container sets the variable itself, to something other than Weir's value.
fn is_set(own: &BTreeMap<&str, &str>, name: &str) -> bool {
    own.get(name).is_some_and(|value| !mentions(value, name))
}

fn set(own: &BTreeMap<&str, &str>, name: &str) -> Result<Option<u16>, String> {
    match own.get(name) {
        Some(value) => match value.parse() {
            Ok(port) => Ok(Some(port)),
            Err(_) => Err(format!("the variable {name} is {value:?}, not a port number")),
        },
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const DECLARED: ContainerPorts = ContainerPorts { http: Some(5000), grpc: None };

    fn plan(words: &[&str], env: &[(&str, &str)]) -> Result<PortPlan, String> {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        let env = env.iter().map(|&(k, v)| (k.to_owned(), v.to_owned()));
        PortPlan::of(&words, &env.collect::<Vec<_>>(), DECLARED)
    }

    fn fixed(http: u16) -> PortPlan {
        PortPlan::Fixed(ContainerPorts { http: Some(http), grpc: None })
    }

    #[test]
    fn variables_make_ports_free() {
        assert_eq!(plan(&["serve", "--port=$(PORT)"], &[]), Ok(PortPlan::One));
        assert_eq!(plan(&["sh", "-c", "serve $PORT"], &[]), Ok(PortPlan::One));
        let both = plan(&["serve", "$(PORT)"], &[("G", "$(GRPC_PORT)")]);
        assert_eq!(both, Ok(PortPlan::Two));
        assert_eq!(plan(&["serve", "$(GRPC_PORT)"], &[]), Ok(PortPlan::Grpc));
        assert_eq!(plan(&["serve"], &[("PORT", "$(PORT)")]), Ok(PortPlan::One));
    }

    #[test]
    fn a_command_on_fixed_ports_has_one_replica() {
        assert_eq!(plan(&["serve"], &[]), Ok(fixed(5000)));
        assert_eq!(plan(&["serve", "$(PORT)"], &[("PORT", "7")]), Ok(fixed(7)));
        assert_eq!(fixed(1).max_replicas(), 1);
        let error = plan(&["serve"], &[("PORT", "http")]).unwrap_err();
        assert_eq!(error, "the variable PORT is \"http\", not a port number");
    }

    #[test]
    fn metrics_have_the_port_of_the_variable_or_of_the_annotation() {
        let plan = |words: &[&str], env: &[(&str, &str)], declared| {
            let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
            let env: Vec<_> = env.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
            MetricsPlan::of(&words, &env, declared)
        };
        assert_eq!(plan(&["serve"], &[], None), MetricsPlan::WithHttp);
        assert_eq!(plan(&["serve"], &[], Some(8002)), MetricsPlan::Fixed(8002));
        assert_eq!(plan(&["serve", "--metrics=$(METRICS_PORT)"], &[], Some(8002)), MetricsPlan::Free);
        assert_eq!(plan(&["serve"], &[("METRICS", "$(METRICS_PORT)")], None), MetricsPlan::Free);
        let own = [("METRICS_PORT", "8002")];
        assert_eq!(plan(&["serve", "$(METRICS_PORT)"], &own, Some(8002)), MetricsPlan::Fixed(8002));
    }

    #[test]
    fn a_taken_port_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let pool = PortPool::new();
        let error = fixed(port).assign(MetricsPlan::WithHttp, &pool).unwrap_err();
        assert!(error.starts_with(&format!("port {port} is in use;")), "{error}");
        drop(taken);
        let leased = fixed(port).assign(MetricsPlan::WithHttp, &pool).unwrap();
        assert_eq!(leased.ports, Ports::new(Some(port), None));
    }

    #[test]
    fn free_ports_differ() {
        let pool = PortPool::new();
        let two = PortPlan::Two.assign(MetricsPlan::Free, &pool).unwrap();
        assert_ne!(two.ports.http, two.ports.grpc);
        let one = PortPlan::One.assign(MetricsPlan::Fixed(8002), &pool).unwrap();
        assert_eq!(one.ports.http, one.ports.grpc);
        assert_ne!(one.ports.http, two.ports.http);
        assert_eq!(one.ports.metrics, Some(8002));
        let metrics = two.ports.metrics.unwrap();
        assert!(![two.ports.http, two.ports.grpc, one.ports.http].contains(&Some(metrics)));
    }
}
