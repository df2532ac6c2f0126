//! The port of the cache. `weir_fetch::node_cache` has the form of its requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::{FutureExt, stream};
use http::{HeaderMap, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::Service;
use weir_fetch::node_cache::{Answer, ENTRIES, EntryKey, LEASE, chunks};
use weir_serve::http2_limits::{Http2Limits, MAX_CONTROL_HEAD};
use weir_serve::{ConnectionLimits, Http1Use, HttpOptions, HttpPort, Pace, Stream, TimedBody};

use crate::agent::{Agent, Reply};
use crate::error::CacheError;
use crate::index::{EntryId, LeaseId};
use crate::stream::Reading;

/// Maximum number of connections: the pods that start on one node, which has at most some hundred pods.
const CONNECTIONS: usize = 512;

/// Limits on the connections. A pod reads and writes its own disk between two chunks, which must be faster than 1 MiB/s in
/// the mean.
const LIMITS: ConnectionLimits = ConnectionLimits {
    total: CONNECTIONS,
    per_client: ConnectionLimits::share_of(CONNECTIONS),
    idle: Duration::from_secs(30),
    stall: Duration::from_secs(30),
    pace: Pace { grace: Duration::from_secs(30), rate: 1 << 20 },
};

/// Bytes of an upload that are read at once.
const READ_AT_ONCE: usize = 256 << 10;

/// Maximum number of concurrent streams of a connection over HTTP/2, which Weir's own client does not use.
const STREAMS: u32 = 16;

/// Serves the cache on a listener until `stop` is cancelled, then ends open requests with their connections.
pub async fn serve(agent: Arc<Agent>, listener: TcpListener, stop: CancellationToken) {
    let http1 = Http1Use::Served { max_head: MAX_CONTROL_HEAD as usize, read_at_once: READ_AT_ONCE };
    let options = HttpOptions { connections: LIMITS, http1, http2: Http2Limits::control(STREAMS) };
    let port = HttpPort::new(options, stop);
    let router = router(agent);
    port.accept(listener, |stream| connection(port.clone(), router.clone(), stream)).await;
    port.ended().await;
}

async fn connection(port: HttpPort, router: Router, stream: Stream) {
    let traffic = stream.traffic();
    let answer = |request: http::Request<TimedBody<Incoming>>| {
        let answered = router.clone().call(request.map(Body::new));
        answered.map(|Ok(response)| response)
    };
    port.serve_timed(stream, answer, &traffic).await;
}

fn router(agent: Arc<Agent>) -> Router {
    Router::new()
        .route(&format!("{ENTRIES}{{key}}"), get(ask).put(store).delete(damaged))
        .route(&format!("{ENTRIES}{{key}}/lease"), post(renew).delete(end))
        .with_state(agent)
}

type Shared = State<Arc<Agent>>;

async fn ask(State(agent): Shared, Path(key): Path<String>, uri: Uri, headers: HeaderMap) -> Response {
    answer(agent, &key, &uri, &headers).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(agent: Arc<Agent>, key: &str, uri: &Uri, headers: &HeaderMap) -> Result<Response, CacheError> {
    let bytes = bytes(uri)?;
    let id = entry(&agent, key, headers).await?;
    let entry = match agent.ask(&id, bytes).await? {
        Reply::Hit(entry) => entry,
        Reply::Fetch(lease) => return accepted(&Answer::Fetch(lease.as_str().to_owned())),
        Reply::Wait => return accepted(&Answer::Wait),
    };
    // The entry stays in the cache until this value is dropped, also if the client leaves while it waits.
    let reading = Reading::new(agent.clone(), id, entry);
    let permit = agent.read_permit().await?;
    let stream = reading.start(permit).map_err(CacheError::file("manifest.json"))?;
    let mut chunks = stream.chunks;
    let body = Body::from_stream(stream::poll_fn(move |context| chunks.poll_recv(context)));
    Ok(([(header::CONTENT_LENGTH, stream.length)], body).into_response())
}

async fn store(State(agent): Shared, Path(key): Path<String>, request: Request) -> Result<StatusCode, CacheError> {
    let id = entry(&agent, &key, request.headers()).await?;
    let lease = lease(request.headers())?;
    // Fails before the body is read if the lease has expired.
    agent.renew(&id, &lease)?;
    let permit = agent.upload_permit().await?;
    let (sender, mut reader) = chunks();
    let storing = tokio::task::spawn_blocking(move || {
        let stored = agent.store(&id, &lease, &mut reader);
        drop(permit);
        stored
    });
    let mut body = request.into_body();
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data()
            && sender.send(data).await.is_err()
        {
            break;
        }
    }
    // The end of the stream: the thread compares the number of bytes with the list of files.
    drop(sender);
    storing.await.map_err(|error| CacheError::file("staged")(io::Error::other(error)))??;
    Ok(StatusCode::NO_CONTENT)
}

async fn damaged(State(agent): Shared, Path(key): Path<String>, headers: HeaderMap) -> Result<StatusCode, CacheError> {
    let id = entry(&agent, &key, &headers).await?;
    let removed = tokio::task::spawn_blocking(move || agent.damaged(&id)).await;
    removed.map_err(|error| CacheError::file("entries")(io::Error::other(error)))?;
    Ok(StatusCode::NO_CONTENT)
}

async fn renew(State(agent): Shared, Path(key): Path<String>, headers: HeaderMap) -> Result<StatusCode, CacheError> {
    let id = entry(&agent, &key, &headers).await?;
    agent.renew(&id, &lease(&headers)?)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn end(State(agent): Shared, Path(key): Path<String>, headers: HeaderMap) -> Result<StatusCode, CacheError> {
    let id = entry(&agent, &key, &headers).await?;
    agent.end(&id, &lease(&headers)?)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the entry that a request is about: the key of its path, in the namespace that its token proves.
async fn entry(agent: &Agent, key: &str, headers: &HeaderMap) -> Result<EntryId, CacheError> {
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let namespace = agent.namespace(token.ok_or(CacheError::Unauthenticated)?).await?;
    let key = EntryKey::parse(key);
    let key = key.ok_or_else(|| CacheError::Invalid("the key must be 64 hexadecimal digits".to_owned()))?;
    Ok(EntryId { namespace, key })
}

fn lease(headers: &HeaderMap) -> Result<LeaseId, CacheError> {
    let text = headers.get(LEASE).and_then(|value| value.to_str().ok());
    text.and_then(LeaseId::parse).ok_or(CacheError::NoLease)
}

/// Returns the size of the source in the query; `None` without one.
fn bytes(uri: &Uri) -> Result<Option<u64>, CacheError> {
    let Some(query) = uri.query() else {
        return Ok(None);
    };
    let bytes = query.strip_prefix("bytes=").and_then(|bytes| bytes.parse().ok());
    bytes.map(Some).ok_or_else(|| CacheError::Invalid("the query must be bytes=SIZE".to_owned()))
}

fn accepted(answer: &Answer) -> Result<Response, CacheError> {
    let json = serde_json::to_string(answer).map_err(|error| CacheError::Invalid(error.to_string()))?;
    Ok((StatusCode::ACCEPTED, [(header::CONTENT_TYPE, "application/json")], json).into_response())
}

impl IntoResponse for CacheError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Unchecked(reason) => {
                tracing::warn!(%reason, "a token cannot be checked");
                let text = "the token cannot be checked at present\n";
                return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
            }
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Full => StatusCode::INSUFFICIENT_STORAGE,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::NoLease => StatusCode::CONFLICT,
            Self::Refused(_) | Self::File { .. } => {
                tracing::error!(error = %self, "a file of the cache cannot be used");
                let text = "the cache cannot use its directory\n";
                return (StatusCode::INTERNAL_SERVER_ERROR, text).into_response();
            }
        };
        (status, format!("{self}\n")).into_response()
    }
}
