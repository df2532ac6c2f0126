//! What a gateway is configured with.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_cluster::ServiceName;
use weir_ops::known_hosts::KnownHosts;
use weir_ops::socket::{ConnectionLimits, Pace};

/// The clients of a gateway: they decide whether it may list names and route by model name alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One platform on one machine: names may be told, and models are routed by name.
    Local,
    /// A cluster with several tenants, which do not learn of each other's names.
    Cluster,
}

/// What a gateway is configured with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name among the gateways.
    pub name: Arc<str>,
    /// Whether it serves one machine.
    pub scope: Scope,
    /// The services that are declared, where somebody knows: the server as a whole is not ready before
    /// each of them has a route. Without it, once there is any.
    pub declared: Option<watch::Receiver<Arc<BTreeSet<ServiceName>>>>,
    /// The most bytes of one request's body that are kept so that it can be sent again:
    /// `--request-buffer`. What is longer streams, and is sent once.
    pub request_buffer: usize,
    /// The most bytes of all bodies together that are kept so.
    pub all_buffers: usize,
    /// The most bytes of bodies that wait for one revision.
    pub queue_bytes: usize,
    /// Hosts that the ports answer to beside those of services.
    pub hosts: KnownHosts,
    /// Limits on each port's connections, and on the waits for their clients.
    pub connections: ConnectionLimits,
    /// The longest time for a TLS handshake.
    pub handshake_timeout: Duration,
}

/// Connections at once: each holds some 10 KiB while it is idle.
const MAX_CONNECTIONS: usize = 16_384;

impl Options {
    /// Defaults: 64 MiB for a request, as the runtime's largest body is; 1 GiB for all, half of which
    /// one revision may hold; the runtime's own timeouts; for a handshake what two round trips and some
    /// small messages need on a bad mobile network, twice.
    #[must_use]
    pub fn new(name: &str, scope: Scope) -> Self {
        Self {
            name: name.into(),
            scope,
            declared: None,
            request_buffer: 64 << 20,
            all_buffers: 1 << 30,
            queue_bytes: 512 << 20,
            hosts: KnownHosts::Any,
            connections: ConnectionLimits {
                total: MAX_CONNECTIONS,
                per_client: ConnectionLimits::share_of(MAX_CONNECTIONS),
                idle: Duration::from_secs(75),
                stall: Duration::from_secs(30),
                pace: Pace::default(),
            },
            handshake_timeout: Duration::from_secs(10),
        }
    }
}
