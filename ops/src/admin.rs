//! The admin port, for metric scrapers, probes and operators. It serves `/metrics`, `/health`, an index of the pages at
//! `/`, and the JSON pages and gRPC services that the owner adds. It speaks HTTP/1.1 and, by prior knowledge, HTTP/2.

mod access;
mod connection;
mod token;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, StatusCode, header};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::{Layer, Service};
use tower_http::normalize_path::NormalizePathLayer;

use crate::registry::{CONTENT_TYPE, text};
use access::Access;
pub use token::{TokenFile, TokenFileError};
use weir_serve::known_hosts::KnownHosts;
use weir_serve::{ConnectionLimits, HttpOptions, HttpPort, Pace, ReservedPlaces};

/// Default limits on the connections. A scraper and a few operators need a handful of connections; further ones wait in
/// the kernel's backlog. The idle timeout is two common scrape intervals (15 s), so that a scraper's keep-alive
/// connection survives between scrapes. A stalled client holds a connection for 10 s at most.
const LIMITS: ConnectionLimits = ConnectionLimits {
    total: 64,
    per_client: ConnectionLimits::share_of(64),
    idle: Duration::from_secs(30),
    stall: Duration::from_secs(10),
    pace: Pace { grace: Duration::from_secs(10), rate: 1024 },
};

/// Default maximum of concurrent HTTP/2 streams per connection; a client that watches needs only one.
const MAX_STREAMS: u32 = 16;

/// Source of `/health`, called at each request.
pub type HealthCheck = Arc<dyn Fn() -> Health + Send + Sync>;

/// Predicate on a request's headers that decides if the caller may read the metrics.
pub type CallerCheck = Arc<dyn Fn(&HeaderMap) -> bool + Send + Sync>;

/// Source of a page's JSON, called at each request.
pub type Page = Arc<dyn Fn() -> String + Send + Sync>;

/// Health of the process, as `/health` and `/ready` report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The process accepts requests: 200 `ok`.
    Serving,
    /// The process lacks state that it needs, such as a gateway's routes: 503 `starting`.
    Starting,
    /// The process is shutting down and accepts no new requests: 503 `draining`.
    Draining,
    /// Accepted work does not end, such as a batch that never returns: 503 `stuck`.
    Stuck,
}

/// The admin port's server, bound but not yet serving.
pub struct Admin {
    listener: TcpListener,
    router: Router,
    /// Paths of the pages, listed in the index and in 404 responses.
    pages: Vec<&'static str>,
    /// Path prefixes of the services.
    services: Vec<&'static str>,
    max_streams: u32,
    access: Access,
}

impl Admin {
    /// Serves `registry` and `health` on a listener that the caller has bound. The caller binds so that it can explain
    /// a port that is already in use.
    #[must_use]
    pub fn new(listener: TcpListener, registry: Arc<Registry>, health: HealthCheck) -> Self {
        let router = Router::new()
            .route("/metrics", get(async move || metrics(&registry)))
            .route("/health", get(async move || health()));
        Self {
            listener,
            router,
            pages: vec!["/metrics", "/health"],
            services: Vec::new(),
            max_streams: MAX_STREAMS,
            access: Access { hosts: KnownHosts::Any, token: None, metrics_for: None },
        }
    }

    /// Adds `/ready`, which load balancers read; `/health` is for liveness probes.
    #[must_use]
    pub fn with_readiness(mut self, ready: HealthCheck) -> Self {
        self.router = self.router.route("/ready", get(async move || ready()));
        self.pages.push("/ready");
        self
    }

    /// Restricts `/metrics` to the callers that the predicate accepts.
    #[must_use]
    pub fn with_metrics_for(mut self, callers: CallerCheck) -> Self {
        self.access.metrics_for = Some(callers);
        self
    }

    /// Requires one of the tokens in this file in requests from other machines. The pages for liveness and readiness
    /// need no token, because a kubelet has none.
    #[must_use]
    pub fn with_token(mut self, token: Option<Arc<TokenFile>>) -> Self {
        self.access.token = token;
        self
    }

    /// Answers only requests for these hosts, and refuses requests that pages of other sites send.
    #[must_use]
    pub fn with_hosts(mut self, hosts: KnownHosts) -> Self {
        self.access.hosts = hosts;
        self
    }

    /// Sets the maximum of concurrent HTTP/2 streams per connection, for services whose clients keep a stream open
    /// each.
    #[must_use]
    pub fn with_streams(mut self, streams: u32) -> Self {
        self.max_streams = streams;
        self
    }

    /// Adds a page that returns JSON.
    #[must_use]
    pub fn with_page(mut self, path: &'static str, page: Page) -> Self {
        let json = [(header::CONTENT_TYPE, "application/json")];
        self.router = self.router.route(path, get(async move || (json, page())));
        self.pages.push(path);
        self
    }

    /// Adds a service for all paths that begin with `prefix`, such as `/weir.v1.Reports/` of a gRPC service.
    /// Connections on which services are called count against a limit of their own, as large as that of all other
    /// connections.
    #[must_use]
    pub fn with_service<S>(mut self, prefix: &'static str, service: S) -> Self
    where
        S: Service<Request, Response: IntoResponse, Error = Infallible, Future: Send + 'static>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let paths = format!("{prefix}{{*rest}}");
        self.router = self.router.route_service(&paths, service);
        self.services.push(prefix);
        self
    }

    /// Address that the port listens on.
    ///
    /// # Errors
    /// Fails if the operating system cannot return the socket's address.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is cancelled, then closes the port and drains open connections.
    pub async fn serve(self, stop: CancellationToken) {
        let not_found = format!("not found: try {}\n", self.pages.join(", "));
        let index = index(&self.pages);
        let router = self
            .router
            .route("/", get(async move || Html(index)))
            .fallback(async move || (StatusCode::NOT_FOUND, not_found))
            .method_not_allowed_fallback(async || (StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n"));
        let service = NormalizePathLayer::trim_trailing_slash().layer(router);
        let port = HttpPort::new(HttpOptions::control(LIMITS, self.max_streams), stop);
        let connections = connection::Connections::new(
            service,
            self.access,
            self.services,
            ReservedPlaces::new(&LIMITS),
            port.clone(),
        );
        port.accept(self.listener, |stream| connections.clone().serve(stream)).await;
        port.ended().await;
    }
}

/// Builds a page with a link to each page. The paths are constants, so they need no escaping.
fn index(pages: &[&str]) -> String {
    let links: String = pages.iter().map(|page| format!("<li><a href=\"{page}\">{page}</a></li>\n")).collect();
    format!("<!DOCTYPE html>\n<title>Weir: admin port</title>\n<h1>Weir: admin port</h1>\n<ul>\n{links}</ul>\n")
}

impl IntoResponse for Health {
    fn into_response(self) -> Response {
        match self {
            Self::Serving => "ok\n".into_response(),
            Self::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response(),
            Self::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response(),
            Self::Stuck => (StatusCode::SERVICE_UNAVAILABLE, "stuck\n").into_response(),
        }
    }
}

fn metrics(registry: &Registry) -> Response {
    match text(registry) {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(_) => {
            tracing::error!("a metrics collector failed");
            let text = "a metrics collector failed\n";
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

#[cfg(test)]
mod tests;
