//! Connections to replicas and to other gateways.

mod dial;
mod distrust;
mod engine_queue;
pub(crate) mod http1;
pub(crate) mod http2;
mod load;
pub(crate) mod probe;
mod request;
mod request_body;
mod response_body;
mod tls;
mod upgrade;

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use http::Response;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_cluster::{Address, Endpoints, Failure, Gateway, Replica, Revision};

use crate::peers::PeerTls;
use crate::replica_tls::ReplicaTls;
use crate::wire::protocol::Protocol;
use dial::Dialing;
use engine_queue::EngineQueue;
pub(crate) use load::{RequestKind, UpstreamLoad};
pub(crate) use request::UpstreamRequest;
pub(crate) use request_body::{Chunks, RequestBody, UploadFailure, UploadHandle};
pub(crate) use response_body::ResponseBody;
use tls::UpstreamTls;
pub(crate) use upgrade::{SwitchedConnection, Upgrade, WEBSOCKET};

/// A replica or another gateway, with the connections to it. A restarted replica is a new upstream.
pub(crate) struct Upstream {
    pub(crate) name: Arc<str>,
    restarts: u32,
    pub(crate) endpoints: Endpoints,
    pub(crate) http1_pool: http1::Http1Pool,
    grpc: http2::GrpcChannel,
    /// Channel for the calls of clients that give up many of them.
    separate_grpc: http2::GrpcChannel,
    /// TLS of the connections; `None` if they are plain.
    tls: Option<UpstreamTls>,
    /// Cancelled when the upstream has left the cluster, so that its open requests will not be answered.
    pub(crate) lost: CancellationToken,
    /// Exit of the upstream's program, if the platform reported one when the upstream left.
    end: OnceLock<Failure>,
    /// Last exit of a program at this upstream's addresses, reported by a platform that does not count restarts.
    last_exit: watch::Sender<Option<Failure>>,
    /// Open requests of this gateway at the upstream.
    pub(crate) load: UpstreamLoad,
    /// Requests that wait inside the replica.
    pub(crate) engine_queue: EngineQueue,
    /// Server of the replica's metrics; `None` if they are at the address for HTTP.
    pub(crate) metrics: Option<Arc<Self>>,
    /// Number of concurrent requests that the upstream accepts according to its last report; 0 before its first report.
    capacity: AtomicU32,
    /// Set once a readiness probe was started.
    probed: AtomicBool,
    /// Set once a readiness probe succeeded.
    ready: AtomicBool,
}

/// Failure to get a response from an upstream.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamError {
    pub(crate) kind: UpstreamErrorKind,
    /// Description of the failure, as a clause without a full stop.
    pub(crate) because: String,
}

/// Kind of an upstream's failure, which decides whether the request is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamErrorKind {
    /// The upstream had closed a pooled connection, which says nothing about its health.
    StaleConnection,
    /// The connection could not be opened, or the replica refused the call before it worked on it.
    ConnectFailed,
    /// The upstream was reached, and its certificate is not the expected one. If the address has passed to another
    /// replica, this gateway learns of it within seconds. A certificate that is wrong for longer usually stays wrong.
    Untrusted,
    /// The replica accepted the request, then the connection failed.
    Broken,
    /// The replica's answer violates its protocol; the replica may have done the work.
    InvalidResponse,
    /// The client broke off the request's body, which says nothing about the upstream.
    RequestBodyFailed,
}

/// Connections that may be used for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// An idle connection of the pool, else a new one.
    Any,
    /// A new connection, which cannot be stale.
    New,
    /// A new connection without other requests. It is for bodies that are still arriving: they can be sent only once,
    /// and their clients may leave data unread in both directions.
    Own,
}

/// One of the two shared HTTP/2 connections to an upstream. A connection is read in order, so a call waits behind those
/// that were sent over it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// The connection for the calls of most clients.
    Common,
    /// The connection for the calls of clients that give up many of them.
    Separate,
}

impl Upstream {
    /// Creates the upstream of a replica of this revision. `tls` is for revisions whose replicas serve it.
    pub(crate) fn of_replica(replica: &Replica, revision: &Revision, tls: Option<&Arc<ReplicaTls>>) -> Self {
        let (endpoints, restarts) = (replica.endpoints.clone(), replica.restarts);
        let tls = UpstreamTls::to_replica(revision, tls);
        let upstream = Self { tls, ..Self::new(replica.name.clone(), endpoints, restarts) };
        upstream.note_exit(replica);
        upstream
    }

    pub(crate) fn of_gateway(gateway: &Gateway, tls: Option<Arc<PeerTls>>) -> Self {
        let serving = Some(gateway.serving.clone());
        let endpoints = Endpoints { http: serving.clone(), grpc: serving, metrics: None };
        Self { tls: tls.map(UpstreamTls::Gateway), ..Self::new(gateway.name.clone(), endpoints, 0) }
    }

    fn new(name: Arc<str>, endpoints: Endpoints, restarts: u32) -> Self {
        let metrics = endpoints.metrics.clone().map(|address| {
            let endpoints = Endpoints { http: Some(address), ..Endpoints::default() };
            Arc::new(Self::new(name.clone(), endpoints, restarts))
        });
        Self {
            metrics,
            name,
            restarts,
            endpoints,
            http1_pool: http1::Http1Pool::default(),
            grpc: http2::GrpcChannel::default(),
            separate_grpc: http2::GrpcChannel::default(),
            tls: None,
            lost: CancellationToken::new(),
            end: OnceLock::new(),
            last_exit: watch::Sender::new(None),
            load: UpstreamLoad::default(),
            engine_queue: EngineQueue::default(),
            capacity: AtomicU32::new(0),
            probed: AtomicBool::new(false),
            ready: AtomicBool::new(false),
        }
    }

    /// Sends a request over a connection of its protocol, and waits for the response's head. The request is built once
    /// the connection is open, so that the future reserves no space for it before.
    pub(crate) async fn send<'a>(
        self: &Arc<Self>,
        protocol: Protocol,
        freshness: Freshness,
        channel: Channel,
        request: impl FnOnce() -> UpstreamRequest<'a>,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let Some(address) = self.address(protocol) else {
            let because = format!("it has no {} port", protocol.label());
            return Err(UpstreamError::broken(because));
        };
        match protocol {
            Protocol::Http if self.endpoints.http.is_some() => {
                let response = http1::send(self, self.dialing(address), freshness, request).await?;
                Ok(response.map(ResponseBody::Http1))
            }
            Protocol::Http | Protocol::Grpc => {
                let channel = match channel {
                    Channel::Common => &self.grpc,
                    Channel::Separate => &self.separate_grpc,
                };
                // Boxed, so that the future of an HTTP request reserves no space for gRPC.
                let response = Box::pin(channel.send(self.dialing(address), freshness, request)).await?;
                Ok(response.map(ResponseBody::Http2))
            }
        }
    }

    /// Returns true if the upstream is this replica, without a restart in between.
    pub(crate) fn is(&self, replica: &Replica) -> bool {
        self.name == replica.name && self.restarts == replica.restarts && self.serves_at(&replica.endpoints)
    }

    /// Returns true if requests reach the upstream at these addresses. The metrics port is left out, so that requests go
    /// on when it becomes known.
    fn serves_at(&self, endpoints: &Endpoints) -> bool {
        self.endpoints.http == endpoints.http && self.endpoints.grpc == endpoints.grpc
    }

    /// Records that the upstream has left the cluster and, if one of these replicas reports it, how its program ended.
    pub(crate) fn leave(&self, replicas: &[Replica]) {
        let replica = replicas.iter().find(|replica| replica.name == self.name);
        if let Some(end) = replica.and_then(|replica| replica.exit_of_run(self.restarts)) {
            // An upstream leaves only once, so the value is not set yet.
            let _ = self.end.set(end.clone());
        }
        self.lost.cancel();
    }

    /// Returns true if the upstream serves at this IP address, at any port.
    pub(crate) fn is_at(&self, ip: IpAddr) -> bool {
        [&self.endpoints.http, &self.endpoints.grpc].into_iter().flatten().any(|address| match address {
            Address::Tcp(address) => address.ip().to_canonical() == ip,
            Address::Unix(_) => false,
        })
    }

    /// Records the last exit of this replica's program. Another program serves at the same addresses afterwards.
    pub(crate) fn note_exit(&self, replica: &Replica) {
        let is_other = self.last_exit.send_if_modified(|last| {
            let is_other = *last != replica.last_exit;
            if is_other {
                last.clone_from(&replica.last_exit);
            }
            is_other
        });
        if is_other {
            self.engine_queue.has_restarted();
        }
    }

    /// Returns a receiver of the program exits that the platform reports from now on, for [`Self::ended`].
    pub(crate) fn exits(&self) -> watch::Receiver<Option<Failure>> {
        self.last_exit.subscribe()
    }

    /// Waits until the upstream has left the cluster, or a program exit arrives at `exits`. Returns the exit if the
    /// platform reported how the program ended.
    pub(crate) async fn ended(&self, mut exits: watch::Receiver<Option<Failure>>) -> Option<Failure> {
        tokio::select! {
            biased;
            () = self.lost.cancelled() => self.end.get().cloned(),
            // The sender is a field of this upstream, so `changed` does not fail.
            _ = exits.changed() => exits.borrow().clone(),
        }
    }

    /// Returns true if the upstream's machine refuses connections, as after the end of the program.
    pub(crate) async fn refuses_connections(&self, protocol: Protocol) -> bool {
        match self.address(protocol) {
            Some(address) => dial::is_refused(address).await,
            None => false,
        }
    }

    /// Returns the reason why the upstream's certificate has not been trusted for some seconds; `None` if it is trusted,
    /// or was not presented.
    pub(crate) fn distrust(&self, now: Instant) -> Option<Arc<str>> {
        self.tls.as_ref().and_then(|tls| tls.distrust(now))
    }

    fn dialing<'a>(&'a self, address: &'a Address) -> Dialing<'a> {
        Dialing { address, tls: self.tls.as_ref() }
    }

    fn address(&self, protocol: Protocol) -> Option<&Address> {
        let Endpoints { http, grpc, metrics: _ } = &self.endpoints;
        match protocol {
            // A port with the name `h2c` speaks only HTTP/2, also for REST.
            Protocol::Http => http.as_ref().or(grpc.as_ref()),
            Protocol::Grpc => grpc.as_ref(),
        }
    }

    /// Marks the upstream as probed; true only for the first caller.
    pub(crate) fn begins_probe(&self) -> bool {
        self.endpoints.http.is_some() && !self.probed.swap(true, Ordering::Relaxed)
    }

    /// Records that a readiness probe succeeded.
    pub(crate) fn mark_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Returns true if the replica reports how many requests it accepts.
    pub(crate) fn reports_capacity(&self) -> bool {
        self.capacity.load(Ordering::Relaxed) > 0
    }

    /// Stores the capacity that the replica reports; true if it changed.
    pub(crate) fn note_capacity(&self, capacity: u32) -> bool {
        self.capacity.swap(capacity, Ordering::Relaxed) != capacity
    }
}

impl PartialEq for Upstream {
    /// Compares everything on which a connection depends.
    fn eq(&self, other: &Self) -> bool {
        let is_same_run = self.name == other.name && self.restarts == other.restarts;
        let is_same_transport = self.tls.is_some() == other.tls.is_some();
        is_same_run && is_same_transport && self.serves_at(&other.endpoints)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("name", &self.name).finish_non_exhaustive()
    }
}

impl UpstreamErrorKind {
    /// Returns true if there was no connection, so that the request was not sent.
    pub(crate) const fn is_unconnected(self) -> bool {
        matches!(self, Self::ConnectFailed | Self::Untrusted)
    }

    /// Returns the label for logs.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::StaleConnection => "stale_connection",
            Self::ConnectFailed => "connect_failed",
            Self::Untrusted => "untrusted",
            Self::Broken => "broken",
            Self::InvalidResponse => "invalid_response",
            Self::RequestBodyFailed => "request_body_failed",
        }
    }
}

impl UpstreamError {
    pub(crate) fn broken(because: impl Into<String>) -> Self {
        Self { kind: UpstreamErrorKind::Broken, because: because.into() }
    }

    fn invalid_response(because: String) -> Self {
        Self { kind: UpstreamErrorKind::InvalidResponse, because }
    }

    fn connect_failed(because: String) -> Self {
        Self { kind: UpstreamErrorKind::ConnectFailed, because }
    }
}

#[cfg(test)]
mod tests {
    use weir_cluster::Phase;

    use super::*;

    #[test]
    fn a_replica_stays_the_same_when_its_metrics_port_becomes_known() {
        let serving: Address = "127.0.0.1:1".parse::<std::net::SocketAddr>().unwrap().into();
        let upstream = Upstream::of_gateway(&Gateway { name: "a".into(), serving: serving.clone(), admin: None }, None);
        let replica = |serving: &Address, metrics: Option<&Address>| {
            let (http, grpc) = (Some(serving.clone()), Some(serving.clone()));
            let endpoints = Endpoints { http, grpc, metrics: metrics.cloned() };
            Replica { endpoints, ..Replica::new("a", Phase::Ready) }
        };
        let other: Address = "127.0.0.1:2".parse::<std::net::SocketAddr>().unwrap().into();
        assert!(upstream.is(&replica(&serving, None)));
        assert!(upstream.is(&replica(&serving, Some(&other))));
        assert!(!upstream.is(&replica(&other, None)));
    }
}
