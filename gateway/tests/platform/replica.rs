//! A replica that runs in the test's process.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) type TestBody = BoxBody<Bytes, io::Error>;

/// Behaviour of a replica.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Answers with the request's body, after this time.
    Echo(Duration),
    /// Like `Echo`, but with gRPC trailers over HTTP as well, and in chunks.
    Work(Duration),
    Hang,
    /// Sends the beginning of a response, and then breaks off.
    Reset,
    /// Sends every frame back as it arrives, with gRPC trailers at the end.
    Mirror,
    /// Like `Mirror`, but only while the gate is open. The response head has `weir-capacity`, which means one answer
    /// per message, as in `weir-runtime`.
    Answer(Arc<Semaphore>),
    /// Like `Answer`, but the response head is sent only once the gate is open, as servers do that send it with the
    /// first answer.
    LateHead(Arc<Semaphore>),
    /// Sends the events of the test.
    Events(Arc<Mutex<Option<mpsc::Receiver<Bytes>>>>),
    /// Refuses requests with 503 and `retry-after`, like any full server.
    Refuse,
    /// Answers with a refusal that has or lacks the header `weir-refused`.
    Refusal(Refusal),
    Fail,
    /// Answers with the result of a function once the gate is open.
    Compute(Arc<Semaphore>, Compute),
}

/// A model, as a function from a request to its response.
pub(crate) type Compute = fn(&http::request::Parts, &Bytes) -> Response<TestBody>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// 503, marked as a refusal.
    FullHttp,
    /// 503 with `retry-after`, marked as a refusal for which no retry helps.
    LateHttp,
    /// `RESOURCE_EXHAUSTED`, marked as a refusal.
    FullGrpc,
    /// `RESOURCE_EXHAUSTED` for another reason, without a mark.
    TooLargeGrpc,
}

/// Connections and requests that a replica got.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) connections: AtomicUsize,
    pub(crate) requests: AtomicUsize,
    pub(crate) now: AtomicUsize,
    pub(crate) most: AtomicUsize,
    pub(crate) bodies: Mutex<Vec<Bytes>>,
    pub(crate) heads: Mutex<Vec<http::request::Parts>>,
    pub(crate) times: Mutex<Vec<Instant>>,
    pub(crate) changed: Notify,
}

/// A running replica. When it is dropped, its port and all its connections are closed.
pub(crate) struct TestReplica {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Observed>,
    _alive: DropGuard,
}

struct Busy(Arc<Observed>);

impl Busy {
    fn new(seen: &Arc<Observed>) -> Self {
        seen.requests.fetch_add(1, Ordering::SeqCst);
        let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(now, Ordering::SeqCst);
        seen.changed.notify_waiters();
        Self(Arc::clone(seen))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

impl TestReplica {
    pub(crate) async fn start(behaviour: Behaviour) -> Self {
        Self::sharing(behaviour, Arc::default()).await
    }

    /// Starts a replica whose counts are shared with other replicas.
    pub(crate) async fn sharing(behaviour: Behaviour, seen: Arc<Observed>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, behaviour, seen)
    }

    pub(crate) fn on(listener: TcpListener, behaviour: Behaviour, seen: Arc<Observed>) -> Self {
        let address = listener.local_addr().unwrap();
        let alive = CancellationToken::new();
        tokio::spawn(serve(listener, behaviour, Arc::clone(&seen), alive.clone()));
        Self { address, seen, _alive: alive.drop_guard() }
    }

    /// Starts a replica whose responses are not HTTP.
    pub(crate) async fn babbling() -> Self {
        // The three bytes, read as the length of an HTTP/2 frame, exceed the largest frame.
        Self::saying(Bytes::from_static(b"\xff\xff\xff garbage\r\n\r\n")).await
    }

    /// Starts a replica that answers every request with this text and closes the connection.
    pub(crate) async fn saying(text: Bytes) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let alive = CancellationToken::new();
        let seen = Arc::<Observed>::default();
        let says = say_to_all(listener, text, Arc::clone(&seen));
        let stop = alive.clone();
        tokio::spawn(async move { stop.run_until_cancelled(says).await });
        Self { address, seen, _alive: alive.drop_guard() }
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }
}

impl Observed {
    /// Waits until the replica works on exactly `count` requests.
    pub(crate) async fn until_busy(&self, count: usize) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.now.load(Ordering::SeqCst) == count {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
        assert!(waited.is_ok(), "{} busy, not {count}", self.now.load(Ordering::SeqCst));
    }
}

async fn say_to_all(listener: TcpListener, text: Bytes, seen: Arc<Observed>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut begin = [0; 1024];
        // A client that has already disconnected gets the text as well.
        let read = stream.read(&mut begin).await.unwrap_or(0);
        if !begin[..read].starts_with(b"GET /v2/health/ready") {
            seen.requests.fetch_add(1, Ordering::SeqCst);
        }
        let _ = stream.write_all(&text).await;
    }
}

async fn serve(listener: TcpListener, behaviour: Behaviour, seen: Arc<Observed>, alive: CancellationToken) {
    while let Some(Ok((stream, _))) = alive.run_until_cancelled(listener.accept()).await {
        // Without this the end of a response waits for the acknowledgement of its beginning.
        stream.set_nodelay(true).unwrap();
        let (behaviour, seen) = (behaviour.clone(), Arc::clone(&seen));
        seen.connections.fetch_add(1, Ordering::SeqCst);
        let alive = alive.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(behaviour.clone(), Arc::clone(&seen), request));
            let builder = auto::Builder::new(TokioExecutor::new());
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            let _ = alive.run_until_cancelled(connection).await;
        });
    }
}

async fn answer(
    behaviour: Behaviour,
    seen: Arc<Observed>,
    request: Request<Incoming>,
) -> Result<Response<TestBody>, Infallible> {
    if request.uri().path() == "/v2/health/ready" {
        return Ok(Response::new(full("")));
    }
    let busy = Busy::new(&seen);
    let (head, body) = request.into_parts();
    seen.heads.lock().push(head.clone());
    seen.times.lock().push(Instant::now());
    match behaviour {
        Behaviour::Mirror => return Ok(mirror(body, busy, Arc::new(Semaphore::new(1)))),
        Behaviour::Answer(gate) => return Ok(answers(body, busy, gate)),
        Behaviour::LateHead(gate) => {
            drop(gate.acquire().await);
            return Ok(answers(body, busy, gate));
        }
        _ => {}
    }
    let Ok(body) = body.collect().await else {
        return std::future::pending().await;
    };
    let body = body.to_bytes();
    seen.bodies.lock().push(body.clone());
    Ok(match behaviour {
        Behaviour::Echo(time) => {
            tokio::time::sleep(time).await;
            let mut response = Response::new(full(body));
            let timing = http::HeaderValue::from_static("queue;dur=1.000, compute;dur=2.000");
            response.headers_mut().insert("server-timing", timing);
            response
        }
        Behaviour::Compute(gate, compute) => {
            let _open = gate.acquire().await;
            compute(&head, &body)
        }
        Behaviour::Work(time) => {
            tokio::time::sleep(time).await;
            worked(body, busy)
        }
        Behaviour::Hang => std::future::pending().await,
        Behaviour::Reset => broken_off(),
        Behaviour::Events(events) => streamed(events.lock().take().expect("one stream"), busy),
        Behaviour::Refuse => refused(),
        Behaviour::Refusal(refusal) => refusal_response(refusal),
        Behaviour::Fail => failed(),
        Behaviour::Mirror | Behaviour::Answer(_) | Behaviour::LateHead(_) => unreachable!("answered above"),
    })
}

fn broken_off() -> Response<TestBody> {
    let begin = Ok(Frame::data(Bytes::from_static(b"begin")));
    let pieces = tokio_stream::iter([begin, Err(io::Error::other("no"))]);
    // A pause, so that the beginning is sent before the connection ends.
    let pieces = tokio_stream::StreamExt::then(pieces, async |piece| {
        if piece.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        piece
    });
    Response::new(BodyExt::boxed(StreamBody::new(Box::pin(pieces))))
}

/// Returns a response during which the replica counts as busy.
fn streamed(events: mpsc::Receiver<Bytes>, busy: Busy) -> Response<TestBody> {
    let events = tokio_stream::wrappers::ReceiverStream::new(events);
    let events = tokio_stream::StreamExt::map(events, move |event| {
        let _busy = &busy;
        Ok(Frame::data(event))
    });
    Response::new(BodyExt::boxed(StreamBody::new(events)))
}

fn refused() -> Response<TestBody> {
    let mut response = Response::new(full("full"));
    *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    let second = http::HeaderValue::from_static("1");
    response.headers_mut().insert("retry-after", second);
    response
}

fn failed() -> Response<TestBody> {
    let mut response = Response::new(full("failed"));
    *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
    response
}

fn refusal_response(refusal: Refusal) -> Response<TestBody> {
    let mut response = Response::new(full(""));
    let headers = response.headers_mut();
    let text = |text| http::HeaderValue::from_static(text);
    match refusal {
        Refusal::FullHttp => {}
        Refusal::LateHttp => {
            headers.insert("retry-after", text("1"));
        }
        Refusal::FullGrpc | Refusal::TooLargeGrpc => {
            headers.insert("content-type", text("application/grpc"));
            headers.insert("grpc-status", text("8"));
        }
    }
    match refusal {
        Refusal::FullHttp | Refusal::FullGrpc => {
            headers.insert("weir-refused", text("1"));
        }
        Refusal::LateHttp => {
            headers.insert("weir-refused", text("0"));
        }
        Refusal::TooLargeGrpc => {}
    }
    if let Refusal::FullHttp | Refusal::LateHttp = refusal {
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// Returns the body with gRPC trailers, which HTTP ignores. The replica counts as busy until both are sent.
fn worked(body: Bytes, busy: Busy) -> Response<TestBody> {
    let mut end = http::HeaderMap::new();
    end.insert("grpc-status", http::HeaderValue::from_static("0"));
    let frames = [Ok(Frame::data(body)), Ok(Frame::trailers(end))];
    let frames = tokio_stream::StreamExt::map(tokio_stream::iter(frames), move |frame| {
        let _busy = &busy;
        frame
    });
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(frames)));
    let kind = http::HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", kind);
    response
}

/// Returns a stream with one answer to each message.
fn answers(body: Incoming, busy: Busy, gate: Arc<Semaphore>) -> Response<TestBody> {
    let mut response = mirror(body, busy, gate);
    let capacity = http::HeaderValue::from_static("1");
    response.headers_mut().insert("weir-capacity", capacity);
    response
}

fn mirror(body: Incoming, busy: Busy, gate: Arc<Semaphore>) -> Response<TestBody> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _busy = busy;
        let mut body = body;
        while let Some(Ok(frame)) = body.frame().await {
            let open = gate.acquire().await;
            drop(open);
            if sender.send(Ok(frame)).await.is_err() {
                return;
            }
        }
        let mut end = http::HeaderMap::new();
        end.insert("grpc-status", http::HeaderValue::from_static("0"));
        let _ = sender.send(Ok(Frame::trailers(end))).await;
    });
    let frames = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(frames)));
    let kind = http::HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", kind);
    response
}

pub(crate) fn full(body: impl Into<Bytes>) -> TestBody {
    Full::new(body.into()).map_err(|never| match never {}).boxed()
}
