//! A call's body on its way to a replica.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body as _;

use crate::upstream::RequestBody;

/// What of a body is not handed to the connection yet.
pub(super) struct Upload {
    stream: SendStream<Bytes>,
    state: UploadState,
}

enum UploadState {
    /// More may come, behind what waits for the replica to make room.
    Open(Box<RequestBody>, Option<Bytes>),
    Done,
    /// The client's body or the stream broke off.
    Failed,
}

impl Upload {
    pub(super) fn new(body: RequestBody, stream: SendStream<Bytes>) -> Self {
        let state = match body.is_end_stream() {
            true => UploadState::Done,
            false => UploadState::Open(Box::new(body), None),
        };
        Self { stream, state }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, UploadState::Failed)
    }

    /// Hands over what there is. Ready once all is, or it failed.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let UploadState::Open(body, waiting) = &mut self.state else {
                return Poll::Ready(());
            };
            let step = match waiting.take() {
                Some(data) => ready!(give(&mut self.stream, body, waiting, data, context)),
                None => ready!(take(&mut self.stream, body, waiting, context)),
            };
            match step {
                Step::More => {}
                Step::End => self.state = UploadState::Done,
                Step::Fail => {
                    self.stream.send_reset(Reason::CANCEL);
                    self.state = UploadState::Failed;
                }
            }
        }
    }
}

enum Step {
    More,
    End,
    Fail,
}

/// Takes the body's next piece. What is kept for a replay anyway is handed over at once, whatever the
/// replica's window; of what streams there is never more than one piece here.
fn take(
    stream: &mut SendStream<Bytes>,
    body: &mut RequestBody,
    waiting: &mut Option<Bytes>,
    context: &mut Context<'_>,
) -> Poll<Step> {
    let frame = match ready!(Pin::new(&mut *body).poll_frame(context)) {
        None => return Poll::Ready(sent(stream.send_data(Bytes::new(), true), true)),
        Some(Err(_)) => return Poll::Ready(Step::Fail),
        Some(Ok(frame)) => frame,
    };
    Poll::Ready(match frame.into_data() {
        Ok(data) if body.is_kept() => {
            let is_last = body.is_end_stream();
            sent(stream.send_data(data, is_last), is_last)
        }
        Ok(data) => {
            stream.reserve_capacity(data.len());
            *waiting = Some(data).filter(|data| !data.is_empty());
            Step::More
        }
        Err(frame) => match frame.into_trailers() {
            Ok(trailers) => sent(stream.send_trailers(trailers), true),
            Err(_) => Step::More,
        },
    })
}

/// Hands over as much of `data` as the replica has room for.
fn give(
    stream: &mut SendStream<Bytes>,
    body: &RequestBody,
    waiting: &mut Option<Bytes>,
    mut data: Bytes,
    context: &mut Context<'_>,
) -> Poll<Step> {
    let room = match stream.poll_capacity(context) {
        Poll::Pending => {
            *waiting = Some(data);
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(room))) => room.min(data.len()),
        Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Step::Fail),
    };
    let piece = data.split_to(room);
    *waiting = Some(data).filter(|data| !data.is_empty());
    let is_last = waiting.is_none() && body.is_end_stream();
    Poll::Ready(sent(stream.send_data(piece, is_last), is_last))
}

fn sent(result: Result<(), h2::Error>, is_last: bool) -> Step {
    match (result, is_last) {
        (Ok(()), false) => Step::More,
        (Ok(()), true) => Step::End,
        (Err(_), _) => Step::Fail,
    }
}
