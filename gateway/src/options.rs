//! The configuration of a gateway.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_cluster::ServiceName;
use weir_serve::known_hosts::KnownHosts;
use weir_serve::{ConnectionLimits, Pace};

use crate::access::AccessControl;
use crate::peers::PeerTls;
use crate::replica_tls::ReplicaTls;

/// Clients of a gateway, which decide whether errors may list names and whether requests are routed by model name
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One platform on one machine: errors may list names, and requests are routed by model name.
    Local,
    /// A cluster with several tenants, which do not see each other's names.
    Cluster,
}

/// Configuration of a gateway.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the gateway among all gateways.
    pub name: Arc<str>,
    /// Clients of the gateway: those of one machine, or the tenants of a cluster.
    pub scope: Scope,
    /// The declared services, if they are known: the server as a whole is ready only once each of them has a route.
    /// `None` makes it ready once there are any routes.
    pub declared: Option<watch::Receiver<Arc<BTreeSet<ServiceName>>>>,
    /// Maximum number of bytes of one request's body that are buffered, so that the request can be retried:
    /// `--request-buffer`. A longer body is streamed and sent only once.
    pub request_buffer: usize,
    /// Maximum number of bytes of all buffered bodies together.
    pub all_buffers: usize,
    /// Maximum number of bytes of the bodies that wait for one revision.
    pub queue_bytes: usize,
    /// Hosts that the ports serve in addition to those of services.
    pub hosts: KnownHosts,
    /// Limits on each port's connections, and on the waits for their clients.
    pub connections: ConnectionLimits,
    /// Keys and rules by which requests are checked; `None` accepts every request.
    pub access: Option<Arc<AccessControl>>,
    /// TLS of the connections between gateways; `None` to recognise other gateways by their addresses.
    pub peers: Option<Arc<PeerTls>>,
    /// TLS of the connections to replicas that serve it; `None` leaves those replicas out of reach.
    pub replicas: Option<Arc<ReplicaTls>>,
    /// Longest time for a TLS handshake.
    pub handshake_timeout: Duration,
}

/// Maximum number of open connections. An idle connection takes some 10 KiB.
const MAX_CONNECTIONS: usize = 16_384;

impl Options {
    /// Creates the defaults. One request may use 64 MiB, the same as the runtime's largest body. All requests may use 1
    /// GiB, and one revision half of it. The timeouts are the runtime's own. A TLS handshake takes two round trips and
    /// some small messages; its limit is twice the time that these take on a bad mobile network.
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
            access: None,
            peers: None,
            replicas: None,
            handshake_timeout: Duration::from_secs(10),
        }
    }
}
