//! The port for scrapers, probes and people: `/metrics`, `/health`, and pages of JSON and services that the
//! owner adds. It speaks HTTP/1.1 and, by prior knowledge, HTTP/2.

mod connection;
mod service;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::registry::{CONTENT_TYPE, text};
use crate::socket::Acceptor;
use service::Service;
pub use service::{Body, BoxError};

/// Connections at once. A scraper and a few curious people need a handful; the rest wait in the
/// kernel's backlog.
const MAX_CONNECTIONS: usize = 64;

/// The longest time a client takes no byte of an answer: what a scraper waits for one at most.
const WRITE_IDLE: Duration = Duration::from_secs(10);

/// Says whether the process is well; asked at each `/health`.
pub type Health = Arc<dyn Fn() -> Condition + Send + Sync>;

/// Makes a page's JSON; asked at each request.
pub type Page = Arc<dyn Fn() -> String + Send + Sync>;

/// Whether the process is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// 200 `ok`.
    Well,
    /// 503 `draining`.
    Draining,
}

/// The server, bound but not yet serving.
pub struct Admin {
    listener: TcpListener,
    served: Served,
}

#[derive(Clone)]
struct Served {
    registry: Arc<Registry>,
    health: Health,
    pages: Vec<(&'static str, Page)>,
    services: Vec<(&'static str, Service)>,
}

impl Admin {
    /// Serves `registry` and `health` on a listener the caller bound, so that a taken port is the
    /// caller's to explain.
    #[must_use]
    pub fn new(listener: TcpListener, registry: Arc<Registry>, health: Health) -> Self {
        Self {
            listener,
            served: Served {
                registry,
                health,
                pages: Vec::new(),
                services: Vec::new(),
            },
        }
    }

    /// Serves a page of JSON too, at this path.
    #[must_use]
    pub fn with_page(mut self, path: &'static str, page: Page) -> Self {
        self.served.pages.push((path, page));
        self
    }

    /// Lets a service answer all paths that begin so, `/weir.v1.Reports/` for instance: a gRPC service, as
    /// HTTP/2 is spoken too.
    #[must_use]
    pub fn with_service<S, B>(mut self, prefix: &'static str, service: S) -> Self
    where
        S: hyper::service::Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = service::boxed(service);
        self.served.services.push((prefix, service));
        self
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the socket does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`, then gives open connections a second.
    pub async fn serve(self, stop: CancellationToken) {
        let acceptor = Acceptor::new(self.listener, MAX_CONNECTIONS, WRITE_IDLE, stop.clone());
        let served = self.served;
        acceptor
            .serve(|stream| connection::serve(stream, served.clone(), stop.clone()))
            .await;
    }
}

impl Served {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        let mut services = self.services.iter();
        match services.find(|(prefix, _)| path.starts_with(prefix)) {
            Some((_, service)) => service(request).await,
            None => self.page(&request).map(service::whole),
        }
    }

    fn page(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let path = path.strip_suffix('/').unwrap_or(path);
        let page = self.pages.iter().find(|(at, _)| *at == path);
        if page.is_none() && !matches!(path, "/metrics" | "/health") {
            return self.not_found();
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        }
        match page {
            Some((_, page)) => respond(StatusCode::OK, "application/json", Bytes::from(page())),
            None if path == "/metrics" => self.metrics(),
            None => self.health(),
        }
    }

    fn health(&self) -> Response<Full<Bytes>> {
        match (self.health)() {
            Condition::Well => plain(StatusCode::OK, "ok\n"),
            Condition::Draining => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        }
    }

    fn not_found(&self) -> Response<Full<Bytes>> {
        let pages = self.pages.iter().map(|(path, _)| format!(", {path}"));
        let text = format!(
            "not found: try /metrics, /health{}\n",
            pages.collect::<String>()
        );
        let kind = "text/plain; charset=utf-8";
        respond(StatusCode::NOT_FOUND, kind, Bytes::from(text))
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        match text(&self.registry) {
            Ok(text) => respond(StatusCode::OK, CONTENT_TYPE, Bytes::from(text)),
            Err(_) => {
                tracing::error!("a metrics collector failed");
                plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "a metrics collector failed\n",
                )
            }
        }
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    respond(
        status,
        "text/plain; charset=utf-8",
        Bytes::from_static(text.as_bytes()),
    )
}

fn respond(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests;
