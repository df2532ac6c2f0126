//! One HTTP/2 connection per upstream, for all its gRPC calls but those whose body still arrives: each has a
//! connection of its own, so that what its client leaves unread on either side holds up nobody else.
//!
//! The task of a request drives its call: it hands frames to the connection and takes those of the response, with
//! no task in between. The connection's own task reads and writes the socket.

mod response_body;
mod upload;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use h2::Reason;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::{Request, Response};
use http_body::Body as _;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::Address;
use weir_ops::http2::{MAX_FRAME, STREAM_WINDOW};
use weir_ops::socket::{BufferedSocket, Flushed};

use super::dial::dial;
use super::{Freshness, UpstreamError, UpstreamErrorKind};
use crate::upstream::UpstreamRequest;
pub(crate) use response_body::Http2ResponseBody;
use upload::Upload;

/// Most bytes of a response's head, as over HTTP/1.1.
const MAX_HEAD: u32 = 64 << 10;

/// The connection's window in bytes: the largest there is. Each response is bounded by its stream's window, and their
/// number by the credits; with less for all together, some clients that do not read would stop the answers of others.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// The HTTP/2 connection to one upstream, opened by the first call.
#[derive(Default)]
pub(super) struct GrpcChannel {
    connections: Mutex<Connections>,
    /// Held while a connection is opened, so that concurrent calls share that one.
    connecting: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Connections {
    /// The connection that takes new calls.
    open: Option<OpenConnection>,
    /// Tasks of connections that take no new calls, and may still have open ones.
    ending: Vec<AbortOnDropHandle<()>>,
    /// Connections opened so far.
    count: u64,
    /// Attempts to open one that failed so far.
    failures: u64,
    /// Why the last attempt failed, as a clause.
    last_failure: String,
}

struct OpenConnection {
    /// Ordinal of the connection, from 1.
    number: u64,
    sender: SendRequest<Bytes>,
    /// The connection's own task.
    task: AbortOnDropHandle<()>,
}

impl GrpcChannel {
    /// Sends a call, and waits for the response's head.
    pub(super) async fn send<'a>(
        &self,
        address: &Address,
        freshness: Freshness,
        request: impl FnOnce() -> UpstreamRequest<'a>,
    ) -> Result<Response<Http2ResponseBody>, UpstreamError> {
        let (mut sender, fallback) = match freshness {
            Freshness::Any | Freshness::New => self.ready(address).await?,
            Freshness::Own => {
                let sender = Box::pin(self.connect_alone(address)).await?;
                (sender, UpstreamErrorKind::Broken)
            }
        };
        let failed =
            |error: h2::Error| UpstreamError { kind: error_kind(&error, fallback), because: error.to_string() };
        let (head, body) = request().into_http2().into_parts();
        let head = Request::from_parts(head, ());
        let (response, stream) = sender.send_request(head, body.is_end_stream()).map_err(failed)?;
        let upload = Upload::new(body, stream);
        response_head(response, upload).await.map_err(failed)
    }

    /// A connection with a free stream, and the kind of error that a failure on it means.
    async fn ready(&self, address: &Address) -> Result<(SendRequest<Bytes>, UpstreamErrorKind), UpstreamError> {
        if let Some((number, mut sender)) = self.sender() {
            match poll_fn(|context| sender.poll_ready(context)).await {
                Ok(()) => return Ok((sender, UpstreamErrorKind::StaleConnection)),
                Err(_) => self.retire(number),
            }
        }
        // Boxed: most calls find an open connection, and need no room for connecting.
        let mut sender = Box::pin(self.connect(address)).await?;
        match poll_fn(|context| sender.poll_ready(context)).await {
            Ok(()) => Ok((sender, UpstreamErrorKind::Broken)),
            Err(error) => {
                Err(UpstreamError { kind: error_kind(&error, UpstreamErrorKind::Broken), because: error.to_string() })
            }
        }
    }

    fn sender(&self) -> Option<(u64, SendRequest<Bytes>)> {
        let connections = self.connections.lock();
        let open = connections.open.as_ref();
        let open = open.filter(|open| !open.task.is_finished());
        open.map(|open| (open.number, open.sender.clone()))
    }

    /// Sends no further calls over this connection, whose peer shuts it down; open calls are still answered.
    fn retire(&self, number: u64) {
        let mut connections = self.connections.lock();
        connections.ending.retain(|task| !task.is_finished());
        if let Some(open) = connections.open.take_if(|open| open.number == number) {
            connections.ending.push(open.task);
        }
    }

    async fn connect(&self, address: &Address) -> Result<SendRequest<Bytes>, UpstreamError> {
        let failures = self.connections.lock().failures;
        let _connecting = self.connecting.lock().await;
        if let Some((_, sender)) = self.sender() {
            return Ok(sender);
        }
        self.none_failed_since(failures)?;
        let opened = open(address).await;
        let mut connections = self.connections.lock();
        let (sender, task) = opened.inspect_err(|error| connections.note_failure(&error.because))?;
        connections.count += 1;
        connections.open = Some(OpenConnection { number: connections.count, sender: sender.clone(), task });
        Ok(sender)
    }

    /// The failure of the attempt that a call waited for, if it failed: one call after the other would wait for a node
    /// that does not answer.
    fn none_failed_since(&self, failures: u64) -> Result<(), UpstreamError> {
        let connections = self.connections.lock();
        if connections.failures == failures {
            return Ok(());
        }
        let because = connections.last_failure.clone();
        Err(UpstreamError::connect_failed(because))
    }

    /// A connection for one call, which ends with it.
    async fn connect_alone(&self, address: &Address) -> Result<SendRequest<Bytes>, UpstreamError> {
        let (sender, task) = open(address).await?;
        let mut connections = self.connections.lock();
        connections.ending.retain(|task| !task.is_finished());
        connections.ending.push(task);
        Ok(sender)
    }
}

impl Connections {
    fn note_failure(&mut self, because: &str) {
        self.failures += 1;
        because.clone_into(&mut self.last_failure);
    }
}

/// Opens a connection, and runs it in a task of its own.
async fn open(address: &Address) -> Result<(SendRequest<Bytes>, AbortOnDropHandle<()>), UpstreamError> {
    let socket = BufferedSocket::http2(dial(address).await?);
    let flusher = socket.flusher();
    let mut builder = Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .max_header_list_size(MAX_HEAD)
        // Answers cross with the resets of calls that their clients gave up. The library takes each for a fault of the
        // replica, and would end the connection, with all others' calls, after a thousand of them.
        .max_local_error_reset_streams(None)
        .enable_push(false);
    let handshake = builder.handshake(socket).await;
    let (sender, connection) = handshake.map_err(|error| UpstreamError::connect_failed(error.to_string()))?;
    let task = tokio::spawn(async move {
        if let Err(error) = Flushed::new(connection, flusher).await {
            tracing::debug!(%error, "connection to a replica failed");
        }
    });
    Ok((sender, AbortOnDropHandle::new(task)))
}

/// The kind of an HTTP/2 error, on a connection whose own failures are of the kind `fallback`.
fn error_kind(error: &h2::Error, fallback: UpstreamErrorKind) -> UpstreamErrorKind {
    let is_ending = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    if error.is_remote() && (is_ending || is_refused) {
        // The peer says that it did nothing with the call (RFC 9113, 8.7).
        UpstreamErrorKind::ConnectFailed
    } else if error.is_library() {
        // h2 itself ends a stream or connection only if the peer violated the protocol.
        UpstreamErrorKind::InvalidResponse
    } else {
        fallback
    }
}

/// Sends the body until the response's head arrives; the rest of the body is sent while the response's body is
/// read.
async fn response_head(
    mut response: ResponseFuture,
    mut upload: Upload,
) -> Result<Response<Http2ResponseBody>, h2::Error> {
    let head = poll_fn(|context| {
        // If the upload broke off, the response or its absence says so.
        let _ = upload.poll(context);
        match Pin::new(&mut response).poll(context) {
            Poll::Pending if upload.has_failed() => Poll::Ready(Err(h2::Reason::CANCEL.into())),
            polled => polled,
        }
    });
    let head = head.await?;
    Ok(head.map(|body| Http2ResponseBody::new(body, upload)))
}

#[cfg(test)]
mod tests;
