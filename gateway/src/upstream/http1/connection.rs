//! One HTTP/1.1 connection, driven by the request that uses it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http::{Method, Response};
use http_body::{Body as _, Frame, SizeHint};
use tokio_util::io::poll_read_buf;

use super::framing::{Decoded, Framing};
use super::head::read_head;
use super::writer::RequestWriter;
use crate::upstream::UpstreamRequest;
use crate::upstream::dial::{Dialing, Socket};
use crate::upstream::{SwitchedConnection, Upgrade, UpstreamError, UpstreamErrorKind};

/// Minimum space in the buffer for a read: enough to read a head with a small body at once.
const MIN_READ: usize = 8 << 10;

/// Largest buffer for reading a body of known length: a large tensor takes a few reads, and a replica that announces a
/// large body but sends nothing takes little memory.
const MAX_READ: u64 = 256 << 10;

/// A connection with at most one request at a time.
pub(super) struct UpstreamConnection {
    stream: Socket,
    /// Generation of certificates with which the connection was opened; 0 without certificates.
    pub(super) generation: u64,
    writer: RequestWriter,
    method: Method,
    /// Upgrade that the current request asks for.
    upgrade: Upgrade,
    /// True if servers may leave the body of the current request unread.
    may_leave_body: bool,
    /// Bytes that were read but not decoded yet.
    input: BytesMut,
    /// Bytes of the interim responses to the current request.
    interim: usize,
    framing: Framing,
    keep_alive: bool,
}

/// Returns true for the methods whose requests rarely have a body, so that some servers do not expect one (RFC 9110,
/// 9.3).
fn may_leave_body(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS | Method::TRACE)
}

/// True for an error of the socket. Errors of the request's body always have the kind `Other`.
fn is_of_socket(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::Other
}

impl UpstreamConnection {
    pub(super) async fn open(dialing: Dialing<'_>) -> Result<Box<Self>, UpstreamError> {
        // Read before the certificates are used, so that a change in between counts.
        let generation = dialing.generation();
        let stream = dialing.dial().await?;
        Ok(Box::new(Self {
            stream,
            generation,
            writer: RequestWriter::default(),
            method: Method::GET,
            upgrade: Upgrade::None,
            may_leave_body: false,
            input: BytesMut::new(),
            interim: 0,
            framing: Framing::Ended,
            keep_alive: true,
        }))
    }

    /// Begins to send a request.
    pub(super) fn start(&mut self, request: UpstreamRequest<'_>) {
        self.method = request.method.clone();
        self.upgrade = request.upgrade;
        self.may_leave_body = may_leave_body(request.method) && !request.body.is_end_stream();
        self.interim = 0;
        self.writer.start(request);
    }

    /// Writes the request and reads the response's head. If the response arrives before the request is written, the
    /// rest is written while the response's body is read.
    pub(super) fn poll_head(
        &mut self,
        failure: UpstreamErrorKind,
        context: &mut Context<'_>,
    ) -> Poll<Result<Response<()>, UpstreamError>> {
        let failed = |because: String| UpstreamError { kind: failure, because };
        let unwritten = match self.writer.poll(&mut self.stream, context) {
            Poll::Ready(Err(error)) => Some(error),
            Poll::Ready(Ok(())) | Poll::Pending => None,
        };
        loop {
            match read_head(&mut self.input, &self.method, self.upgrade, &mut self.interim)
                .map_err(UpstreamError::invalid_response)?
            {
                Some(head) => {
                    (self.framing, self.keep_alive) = (head.framing, head.keep_alive);
                    // After a refused upgrade, client and server may disagree about the protocol of what follows. A
                    // server that has not read a body takes it for the next request.
                    if unwritten.is_some() || self.upgrade != Upgrade::None || self.may_leave_body {
                        self.keep_alive = false;
                    }
                    return Poll::Ready(Ok(head.response));
                }
                None => match (self.poll_input(context), &unwritten) {
                    (Poll::Ready(Ok(0)), None) => {
                        return Poll::Ready(Err(failed("it closed the connection without a response".to_owned())));
                    }
                    // The peer may have answered without reading the whole request, so reading goes on. If the socket
                    // is closed, the next read reports it.
                    (Poll::Pending, Some(error)) if is_of_socket(error) => return Poll::Pending,
                    (Poll::Ready(Ok(0)) | Poll::Pending, Some(error)) => {
                        return Poll::Ready(Err(failed(format!("sending failed: {error}"))));
                    }
                    (Poll::Ready(Ok(_)), _) => {}
                    (Poll::Ready(Err(error)), _) => {
                        return Poll::Ready(Err(failed(format!("reading failed: {error}"))));
                    }
                    (Poll::Pending, None) => return Poll::Pending,
                },
            }
        }
    }

    /// Polls for the next frame of the response's body.
    pub(super) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        if let Poll::Ready(Err(_)) = self.writer.poll(&mut self.stream, context) {
            // A replica may answer without reading the whole request, so the response counts in spite of the write
            // error.
            self.keep_alive = false;
        }
        loop {
            match self.framing.decode(&mut self.input) {
                Ok(Decoded::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Decoded::Trailers(trailers)) => {
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Ok(Decoded::End) => return Poll::Ready(None),
                Ok(Decoded::Incomplete) => {}
                Err(because) => return Poll::Ready(Some(Err(self.broken(because)))),
            }
            match ready!(self.poll_input(context)) {
                Ok(0) => {
                    if let Err(because) = self.framing.close() {
                        return Poll::Ready(Some(Err(self.broken(because))));
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let because = format!("reading failed: {error}");
                    return Poll::Ready(Some(Err(self.broken(because))));
                }
            }
        }
    }

    /// Returns true if the response's body has ended.
    pub(super) fn is_end_stream(&self) -> bool {
        self.framing.is_ended()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Length(left) => SizeHint::with_exact(left),
            Framing::Ended => SizeHint::with_exact(0),
            Framing::Chunked(_) | Framing::UntilClose => SizeHint::default(),
        }
    }

    /// Returns the socket and the bytes behind the head of a response with status 101.
    pub(super) fn into_switched(self) -> SwitchedConnection {
        SwitchedConnection { first: self.input.freeze(), socket: self.stream }
    }

    /// Returns true if the connection can take another request, as far as the socket shows without blocking.
    pub(super) fn is_reusable(&mut self) -> bool {
        if !self.keep_alive || !self.writer.is_done() || !self.framing.is_ended() {
            return false;
        }
        // Bytes outside of a response, or the end of the connection, make the connection useless.
        let mut context = Context::from_waker(Waker::noop());
        self.input.is_empty() && self.poll_input(&mut context).is_pending()
    }

    fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let room = self.framing.expected().min(MAX_READ) as usize;
        if self.input.capacity() - self.input.len() < room.clamp(1, MIN_READ) {
            self.input.reserve(room.max(MIN_READ));
        }
        poll_read_buf(Pin::new(&mut self.stream), context, &mut self.input)
    }

    fn broken(&mut self, because: String) -> String {
        self.keep_alive = false;
        self.framing = Framing::Ended;
        because
    }
}
