//! A shared HTTP/2 connection to an upstream for gRPC calls; there are two of them, see `Channel`. A call whose body is
//! still arriving has a connection of its own, so that data which its client leaves unread on either side cannot block
//! other calls.
//!
//! The task of a request drives its call: it passes frames to the connection and takes the frames of the response, with
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
use weir_serve::http2_limits::{MAX_FRAME, STREAM_WINDOW};
use weir_serve::{BufferedSocket, Flushed};

use super::dial::Dialing;
use super::{Freshness, UpstreamError, UpstreamErrorKind};
use crate::upstream::UpstreamRequest;
pub(crate) use response_body::Http2ResponseBody;
use upload::Upload;

/// Maximum size in bytes of a response's head, the same as over HTTP/1.1.
const MAX_HEAD: u32 = 64 << 10;

/// Receive window of the connection in bytes: the largest possible. The window of each stream limits its response, and
/// the credits limit the number of responses. With a smaller window, clients that do not read would block the responses
/// to other clients.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// The shared HTTP/2 connection to one upstream, opened by the first call.
#[derive(Default)]
pub(super) struct GrpcChannel {
    connections: Mutex<Connections>,
    /// Held while a connection is opened, so that concurrent calls share that connection.
    connecting: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Connections {
    /// The connection that takes new calls.
    open: Option<OpenConnection>,
    /// Tasks of connections that take no new calls but may still have open calls.
    ending: Vec<AbortOnDropHandle<()>>,
    /// Connections opened so far.
    count: u64,
    /// Failed attempts to open a connection so far.
    failures: u64,
    last_failure: Option<UpstreamError>,
}

struct OpenConnection {
    /// Number of the connection, counted from 1.
    number: u64,
    /// Generation of certificates with which the connection was opened; 0 without certificates.
    generation: u64,
    sender: SendRequest<Bytes>,
    /// The connection's own task.
    task: AbortOnDropHandle<()>,
}

impl GrpcChannel {
    /// Sends a call and waits for the response's head.
    pub(super) async fn send<'a>(
        &self,
        dialing: Dialing<'_>,
        freshness: Freshness,
        request: impl FnOnce() -> UpstreamRequest<'a>,
    ) -> Result<Response<Http2ResponseBody>, UpstreamError> {
        let (mut sender, fallback) = match freshness {
            Freshness::Any | Freshness::New => self.ready(dialing).await?,
            Freshness::Own => {
                let sender = Box::pin(self.connect_alone(dialing)).await?;
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

    /// Returns a connection with a free stream, and the kind of error that a failure on this connection means.
    async fn ready(&self, dialing: Dialing<'_>) -> Result<(SendRequest<Bytes>, UpstreamErrorKind), UpstreamError> {
        self.retire_outdated(dialing.generation());
        if let Some((number, mut sender)) = self.sender() {
            match poll_fn(|context| sender.poll_ready(context)).await {
                Ok(()) => return Ok((sender, UpstreamErrorKind::StaleConnection)),
                Err(_) => self.retire(number),
            }
        }
        // Boxed: most calls find an open connection and should not reserve space for connecting.
        let mut sender = Box::pin(self.connect(dialing)).await?;
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

    /// Sends no further calls over the connection, which its peer is shutting down. Open calls are still answered.
    fn retire(&self, number: u64) {
        let mut connections = self.connections.lock();
        connections.ending.retain(|task| !task.is_finished());
        if let Some(open) = connections.open.take_if(|open| open.number == number) {
            connections.ending.push(open.task);
        }
    }

    /// Sends no further calls over a connection that was opened with other certificates.
    fn retire_outdated(&self, generation: u64) {
        let outdated =
            self.connections.lock().open.as_ref().filter(|open| open.generation != generation).map(|open| open.number);
        if let Some(number) = outdated {
            self.retire(number);
        }
    }

    async fn connect(&self, dialing: Dialing<'_>) -> Result<SendRequest<Bytes>, UpstreamError> {
        let failures = self.connections.lock().failures;
        let _connecting = self.connecting.lock().await;
        if let Some((_, sender)) = self.sender() {
            return Ok(sender);
        }
        self.none_failed_since(failures)?;
        // Read before the certificates are used, so that a change in between counts.
        let generation = dialing.generation();
        let opened = open(dialing).await;
        let mut connections = self.connections.lock();
        let (sender, task) = opened.inspect_err(|error| connections.note_failure(error))?;
        connections.count += 1;
        connections.open = Some(OpenConnection { number: connections.count, generation, sender: sender.clone(), task });
        Ok(sender)
    }

    /// Returns an error if the attempt to connect for which this call waited has failed. Without this, each waiting
    /// call in turn would make an attempt of its own to reach a node that does not answer.
    fn none_failed_since(&self, failures: u64) -> Result<(), UpstreamError> {
        let connections = self.connections.lock();
        match &connections.last_failure {
            Some(error) if connections.failures != failures => Err(error.clone()),
            Some(_) | None => Ok(()),
        }
    }

    /// Opens a connection for one call, which ends with the call.
    async fn connect_alone(&self, dialing: Dialing<'_>) -> Result<SendRequest<Bytes>, UpstreamError> {
        let (sender, task) = open(dialing).await?;
        let mut connections = self.connections.lock();
        connections.ending.retain(|task| !task.is_finished());
        connections.ending.push(task);
        Ok(sender)
    }
}

impl Connections {
    fn note_failure(&mut self, error: &UpstreamError) {
        self.failures += 1;
        self.last_failure = Some(error.clone());
    }
}

/// Opens a connection and runs it in a task of its own.
async fn open(dialing: Dialing<'_>) -> Result<(SendRequest<Bytes>, AbortOnDropHandle<()>), UpstreamError> {
    let socket = BufferedSocket::http2(dialing.dial().await?);
    let flusher = socket.flusher();
    let mut builder = Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .max_header_list_size(MAX_HEAD)
        // A response may cross with the reset of a call that its client gave up. h2 counts each as a fault of the
        // replica and would end the connection, with all other calls, after a thousand of them.
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

/// Returns the kind of an HTTP/2 error on a connection whose own failures have the kind `fallback`.
fn error_kind(error: &h2::Error, fallback: UpstreamErrorKind) -> UpstreamErrorKind {
    let is_ending = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    if error.is_remote() && (is_ending || is_refused) {
        // The peer reports that it did no work on the call (RFC 9113, 8.7).
        UpstreamErrorKind::ConnectFailed
    } else if error.is_library() {
        // h2 itself ends a stream or connection only if the peer violates the protocol.
        UpstreamErrorKind::InvalidResponse
    } else if error.is_reset() {
        // The connection works, and the replica has had the call.
        UpstreamErrorKind::Broken
    } else {
        fallback
    }
}

/// Sends the body until the response's head arrives. The rest of the body is sent while the response's body is read.
async fn response_head(
    mut response: ResponseFuture,
    mut upload: Upload,
) -> Result<Response<Http2ResponseBody>, h2::Error> {
    let head = poll_fn(|context| {
        // A failed upload needs no handling here. Either a response contains the reason, or the call is cancelled
        // below.
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
