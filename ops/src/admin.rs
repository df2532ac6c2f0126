//! The port for scrapers, probes and people: `/metrics`, `/health`, and pages of JSON that the owner adds.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::registry::{CONTENT_TYPE, text};
use crate::socket::{Acceptor, Stream};

/// Connections at once. A scraper and a few curious people need a handful; the rest wait in the
/// kernel's backlog.
const MAX_CONNECTIONS: usize = 64;

/// Time a connection has to send a request's head, its idle time before included: two common scrape
/// intervals (15 s), so that a scraper's kept connection survives between scrapes.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Time open connections have to finish once the server stops: a scrape takes milliseconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest time a client takes no byte of an answer: what a scraper waits for one at most.
const WRITE_IDLE: Duration = Duration::from_secs(10);

/// The largest request head hyper lets us ask for; a scrape's is a few hundred bytes.
const MAX_HEAD: usize = 8192;

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
            },
        }
    }

    /// Serves a page of JSON too, at this path.
    #[must_use]
    pub fn with_page(mut self, path: &'static str, page: Page) -> Self {
        self.served.pages.push((path, page));
        self
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the socket does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`, then gives open connections a second. Every connection's task is joined.
    pub async fn serve(self, stop: CancellationToken) {
        let acceptor = Acceptor::new(self.listener, MAX_CONNECTIONS, WRITE_IDLE, stop.clone());
        let mut connections = JoinSet::new();
        while let Some(stream) = acceptor.accept().await {
            connections.spawn(connection(stream, self.served.clone(), stop.clone()));
            while connections.try_join_next().is_some() {}
        }
        drop(acceptor);
        let finish = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, finish).await.is_err() {
            connections.shutdown().await;
        }
    }
}

async fn connection(stream: Stream, served: Served, stop: CancellationToken) {
    let service = service_fn(move |request| {
        let response = served.answer(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the admin port ended early");
    }
}

impl Served {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
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
