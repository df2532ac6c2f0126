//! Replicas, and other gateways, as this one talks to them.

mod dial;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod probe;
mod request;
mod request_body;
mod response_body;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use http::Response;
use tokio_util::sync::CancellationToken;
use weir_cluster::{Endpoints, Gateway, Replica};

use crate::protocol::Protocol;
pub(crate) use request::UpstreamRequest;
pub(crate) use request_body::{Chunks, RequestBody, Sender};
pub(crate) use response_body::ResponseBody;

/// One replica, in one of its lives: one that was started again is another one.
pub(crate) struct Upstream {
    pub(crate) name: Arc<str>,
    restarts: u32,
    pub(crate) endpoints: Endpoints,
    pub(crate) http1_pool: http1::Pool,
    grpc: http2::Channel,
    /// Cancelled when it is gone: nobody will answer what it has.
    pub(crate) lost: CancellationToken,
    /// What it last said that it takes at once; 0 before.
    capacity: AtomicU32,
    /// Whether somebody asks, or asked, whether it is ready.
    probed: AtomicBool,
    /// Whether it said that it is, before its platform did.
    proven: AtomicBool,
}

/// Why there is no response.
#[derive(Debug)]
pub(crate) struct UpstreamError {
    pub(crate) kind: UpstreamErrorKind,
    /// A clause.
    pub(crate) because: String,
}

/// What a fault says about the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamErrorKind {
    /// Nothing: a connection that had been used before was closed meanwhile.
    StaleConnection,
    /// It saw nothing of the request.
    ConnectFailed,
    /// It took the request and broke off.
    Broken,
    /// It took the request, and what it answered is no answer: it may have done the work.
    InvalidResponse,
    /// Nothing: whoever sends the request's body broke off.
    RequestBodyFailed,
}

/// Which connections a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Any.
    Any,
    /// One on which nothing can have gone stale, for what can be sent only once.
    New,
}

impl Upstream {
    pub(crate) fn of_replica(replica: &Replica) -> Self {
        let (endpoints, restarts) = (replica.endpoints.clone(), replica.restarts);
        Self::new(replica.name.clone(), endpoints, restarts)
    }

    pub(crate) fn of_gateway(gateway: &Gateway) -> Self {
        let serving = Some(gateway.serving.clone());
        let endpoints = Endpoints {
            http: serving.clone(),
            grpc: serving,
        };
        Self::new(gateway.name.clone(), endpoints, 0)
    }

    fn new(name: Arc<str>, endpoints: Endpoints, restarts: u32) -> Self {
        Self {
            name,
            restarts,
            endpoints,
            http1_pool: http1::Pool::default(),
            grpc: http2::Channel::default(),
            lost: CancellationToken::new(),
            capacity: AtomicU32::new(0),
            probed: AtomicBool::new(false),
            proven: AtomicBool::new(false),
        }
    }

    /// Sends a request over a connection of its wire, and waits for the head of the answer. The request is made
    /// once there is a connection: until then it need not be carried.
    pub(crate) async fn send<'a>(
        self: &Arc<Self>,
        protocol: Protocol,
        freshness: Freshness,
        request: impl FnOnce() -> UpstreamRequest<'a>,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let address = match protocol {
            Protocol::Http => self.endpoints.http.as_ref(),
            Protocol::Grpc => self.endpoints.grpc.as_ref(),
        };
        let Some(address) = address else {
            let because = format!("it does not listen for {}", protocol.label());
            return Err(UpstreamError::broken(because));
        };
        match protocol {
            Protocol::Http => {
                let response = http1::send(self, address, freshness, request).await?;
                Ok(response.map(ResponseBody::Http1))
            }
            Protocol::Grpc => {
                // Apart, so that plain requests do not carry what calls need.
                let response = Box::pin(self.grpc.send(address, request)).await?;
                Ok(response.map(ResponseBody::Http2))
            }
        }
    }

    /// Whether it is this replica, in this life.
    pub(crate) fn is(&self, replica: &Replica) -> bool {
        self.name == replica.name
            && self.restarts == replica.restarts
            && self.endpoints == replica.endpoints
    }

    /// Whether the caller is the first to ask it.
    pub(crate) fn begins_probe(&self) -> bool {
        self.endpoints.http.is_some() && !self.probed.swap(true, Ordering::Relaxed)
    }

    /// It said that it is ready.
    pub(crate) fn prove(&self) {
        self.proven.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }

    /// Whether this is news of how much it takes at once.
    pub(crate) fn note_capacity(&self, capacity: u32) -> bool {
        self.capacity.swap(capacity, Ordering::Relaxed) != capacity
    }
}

impl PartialEq for Upstream {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.restarts == other.restarts
            && self.endpoints == other.endpoints
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl UpstreamError {
    pub(crate) fn broken(because: impl Into<String>) -> Self {
        Self {
            kind: UpstreamErrorKind::Broken,
            because: because.into(),
        }
    }

    fn invalid_response(because: String) -> Self {
        Self {
            kind: UpstreamErrorKind::InvalidResponse,
            because,
        }
    }

    fn connect_failed(because: String) -> Self {
        Self {
            kind: UpstreamErrorKind::ConnectFailed,
            because,
        }
    }
}
