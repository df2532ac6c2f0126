//! The upload of a gRPC call's body to a replica.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;
use http_body::Body as _;

use crate::upstream::RequestBody;

/// The part of a body that has not been passed to the connection yet.
pub(super) struct Upload {
    stream: SendStream<Bytes>,
    state: UploadState,
}

enum UploadState {
    /// The rest of the body, and data that waits for the replica's flow-control window.
    Open(Box<RequestBody>, Option<Bytes>),
    Done,
    /// The client's body or the stream failed.
    Failed,
}

impl Upload {
    pub(super) fn new(body: RequestBody, stream: SendStream<Bytes>) -> Self {
        let state = if body.is_end_stream() { UploadState::Done } else { UploadState::Open(Box::new(body), None) };
        Self { stream, state }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, UploadState::Failed)
    }

    /// Sends the data that the body has ready. Ready once the body is sent or has failed.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let UploadState::Open(body, pending) = &mut self.state else {
                return Poll::Ready(());
            };
            let step = match pending.take() {
                Some(data) => ready!(send_within_window(&mut self.stream, body, pending, data, context)),
                None => ready!(take_frame(&mut self.stream, body, pending, context)),
            };
            match step {
                UploadStep::Continue => {}
                UploadStep::Done => self.state = UploadState::Done,
                UploadStep::Failed => {
                    self.stream.send_reset(Reason::CANCEL);
                    self.state = UploadState::Failed;
                }
            }
        }
    }
}

/// Result of sending one frame.
enum UploadStep {
    Continue,
    Done,
    Failed,
}

/// Takes the body's next frame. The data of a buffered body is passed on at once, regardless of the replica's window,
/// because it is kept for a retry anyway. For a streamed body at most one frame waits here.
fn take_frame(
    stream: &mut SendStream<Bytes>,
    body: &mut RequestBody,
    pending: &mut Option<Bytes>,
    context: &mut Context<'_>,
) -> Poll<UploadStep> {
    let frame = match ready!(Pin::new(&mut *body).poll_frame(context)) {
        None => return Poll::Ready(step_after(stream.send_data(Bytes::new(), true), true)),
        Some(Err(_)) => return Poll::Ready(UploadStep::Failed),
        Some(Ok(frame)) => frame,
    };
    Poll::Ready(match frame.into_data() {
        Ok(data) if body.is_buffered() => {
            let is_last = body.is_end_stream();
            step_after(stream.send_data(data, is_last), is_last)
        }
        Ok(data) => {
            stream.reserve_capacity(data.len());
            *pending = Some(data).filter(|data| !data.is_empty());
            UploadStep::Continue
        }
        Err(frame) => match frame.into_trailers() {
            Ok(trailers) => step_after(stream.send_trailers(allowed(trailers)), true),
            Err(_) => UploadStep::Continue,
        },
    })
}

/// Returns the trailers of a request without keys, and without the headers that only gateways set. Neither may be in
/// trailers (RFC 9110, 6.5.1), but a server that joins trailers and headers could believe them.
fn allowed(mut trailers: HeaderMap) -> HeaderMap {
    let is_refused = |name: &str| {
        name.starts_with("weir-") || name.starts_with("weir_") || matches!(name, "authorization" | "x-api-key")
    };
    let refused: Vec<_> = trailers.keys().filter(|name| is_refused(name.as_str())).cloned().collect();
    for name in refused {
        trailers.remove(name);
    }
    trailers
}

/// Sends as much of `data` as the replica's window allows.
fn send_within_window(
    stream: &mut SendStream<Bytes>,
    body: &RequestBody,
    pending: &mut Option<Bytes>,
    mut data: Bytes,
    context: &mut Context<'_>,
) -> Poll<UploadStep> {
    let room = match stream.poll_capacity(context) {
        Poll::Pending => {
            *pending = Some(data);
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(room))) => room.min(data.len()),
        Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(UploadStep::Failed),
    };
    let piece = data.split_to(room);
    *pending = Some(data).filter(|data| !data.is_empty());
    let is_last = pending.is_none() && body.is_end_stream();
    Poll::Ready(step_after(stream.send_data(piece, is_last), is_last))
}

fn step_after(result: Result<(), h2::Error>, is_last: bool) -> UploadStep {
    if result.is_err() {
        UploadStep::Failed
    } else if is_last {
        UploadStep::Done
    } else {
        UploadStep::Continue
    }
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    #[test]
    fn trailers_carry_no_keys_and_no_headers_of_gateways() {
        let mut trailers = HeaderMap::new();
        for name in
            ["authorization", "x-api-key", "weir-client", "weir_client", "weir-hop", "x-checksum", "grpc-status"]
        {
            trailers.append(HeaderName::from_static(name), "1".parse().unwrap());
        }
        let allowed = allowed(trailers);
        let mut left: Vec<_> = allowed.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["grpc-status", "x-checksum"]);
    }
}
