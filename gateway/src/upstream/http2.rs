//! One HTTP/2 connection per replica, for all its gRPC calls.
//!
//! A call is driven by whoever makes it: it hands its frames to the connection and takes those of the answer
//! from it, with no task of its own in between. The connection's one task works on the socket.

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
use weir_ops::socket::{Bulk, Flushed};

use super::dial::dial;
use super::{UpstreamError, UpstreamErrorKind};
use crate::upstream::UpstreamRequest;
pub(crate) use response_body::Http2ResponseBody;
use upload::Upload;

/// As the gateway's own port offers: a common image tensor goes in one window.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
const FRAME: u32 = 256 << 10;

/// As much as a head over HTTP/1.1 may be.
const HEAD: u32 = 64 << 10;

/// A connection, once there is one.
#[derive(Default)]
pub(super) struct Channel {
    connections: Mutex<Connections>,
    /// Who connects holds it; who comes meanwhile waits for that connection instead of making another.
    dialling: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Connections {
    /// The one that takes calls.
    open: Option<Open>,
    /// Those that took their last, and still bring answers.
    ending: Vec<AbortOnDropHandle<()>>,
    /// How many there were.
    count: u64,
}

struct Open {
    /// Which, of all there were.
    number: u64,
    sender: SendRequest<Bytes>,
    /// Ends with the connection.
    work: AbortOnDropHandle<()>,
}

impl Channel {
    /// Makes a call, and waits for the head of its answer.
    pub(super) async fn send<'a>(
        &self,
        address: &Address,
        request: impl FnOnce() -> UpstreamRequest<'a>,
    ) -> Result<Response<Http2ResponseBody>, UpstreamError> {
        let (mut sender, before) = self.ready(address).await?;
        let failed = |error: h2::Error| UpstreamError {
            kind: kind(&error, before),
            because: error.to_string(),
        };
        let (head, body) = request().into_http2().into_parts();
        let head = Request::from_parts(head, ());
        let (answer, stream) = sender
            .send_request(head, body.is_end_stream())
            .map_err(failed)?;
        let upload = Upload::new(body, stream);
        first(answer, upload).await.map_err(failed)
    }

    /// A connection that takes a call, and what a fault on it would mean.
    async fn ready(
        &self,
        address: &Address,
    ) -> Result<(SendRequest<Bytes>, UpstreamErrorKind), UpstreamError> {
        if let Some((number, mut sender)) = self.sender() {
            match poll_fn(|context| sender.poll_ready(context)).await {
                Ok(()) => return Ok((sender, UpstreamErrorKind::StaleConnection)),
                Err(_) => self.retire(number),
            }
        }
        // Apart: most calls find a connection, and need not carry what making one needs.
        let mut sender = Box::pin(self.connect(address)).await?;
        match poll_fn(|context| sender.poll_ready(context)).await {
            Ok(()) => Ok((sender, UpstreamErrorKind::Broken)),
            Err(error) => Err(UpstreamError {
                kind: kind(&error, UpstreamErrorKind::Broken),
                because: error.to_string(),
            }),
        }
    }

    fn sender(&self) -> Option<(u64, SendRequest<Bytes>)> {
        let connections = self.connections.lock();
        let open = connections.open.as_ref();
        let open = open.filter(|open| !open.work.is_finished());
        open.map(|open| (open.number, open.sender.clone()))
    }

    /// Makes no further call on this connection. Its peer said that it ends, and may still answer others.
    fn retire(&self, number: u64) {
        let mut connections = self.connections.lock();
        connections.ending.retain(|work| !work.is_finished());
        if let Some(open) = connections.open.take_if(|open| open.number == number) {
            connections.ending.push(open.work);
        }
    }

    async fn connect(&self, address: &Address) -> Result<SendRequest<Bytes>, UpstreamError> {
        let _dialling = self.dialling.lock().await;
        if let Some((_, sender)) = self.sender() {
            return Ok(sender);
        }
        let socket = Bulk::http2(dial(address).await?);
        let outlet = socket.outlet();
        let mut builder = Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME)
            .max_header_list_size(HEAD)
            .enable_push(false);
        let handshake = builder.handshake(socket).await;
        let (sender, connection) =
            handshake.map_err(|error| UpstreamError::connect_failed(error.to_string()))?;
        let work = tokio::spawn(async move {
            if let Err(error) = Flushed::new(connection, outlet).await {
                tracing::debug!(%error, "a connection to a replica ended early");
            }
        });
        let mut connections = self.connections.lock();
        connections.count += 1;
        connections.open = Some(Open {
            number: connections.count,
            sender: sender.clone(),
            work: AbortOnDropHandle::new(work),
        });
        Ok(sender)
    }
}

/// What an error says of the replica, on a connection whose faults mean `before`.
fn kind(error: &h2::Error, before: UpstreamErrorKind) -> UpstreamErrorKind {
    let is_ending = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    match (error.is_remote(), error.is_library()) {
        // It did nothing with the call, and says so (RFC 9113, 8.7).
        (true, _) if is_ending || is_refused => UpstreamErrorKind::ConnectFailed,
        // What the library itself ends a stream or connection for is that the peer broke the rules.
        (_, true) => UpstreamErrorKind::InvalidResponse,
        (true | false, false) => before,
    }
}

/// Sends the body, until the head of the answer is there; what is left of the body then goes on with the
/// answer's.
async fn first(
    mut answer: ResponseFuture,
    mut upload: Upload,
) -> Result<Response<Http2ResponseBody>, h2::Error> {
    let head = poll_fn(|context| {
        // If it broke off the answer says why, or that there is none.
        let _ = upload.poll(context);
        match Pin::new(&mut answer).poll(context) {
            Poll::Pending if upload.has_failed() => Poll::Ready(Err(h2::Reason::CANCEL.into())),
            answer => answer,
        }
    });
    let head = head.await?;
    Ok(head.map(|body| Http2ResponseBody::new(body, upload)))
}

#[cfg(test)]
mod tests;
