//! Reads bodies with limits and deadlines; writes them without copying their buffers into one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use weir_serve::byte_budget::BudgetPermit;

use super::MAX_CONTROL_BODY;
use crate::error::ServeError;
use crate::incoming::charged_bytes;
use crate::incoming::request_body::{BodyLimits, RESERVED, next_chunk};

/// A response body: buffers that are sent one after the other.
#[derive(Debug, Default)]
pub(crate) struct Body {
    buffers: VecDeque<Bytes>,
    remaining: u64,
}

impl Body {
    pub(crate) fn push(&mut self, buffer: Bytes) {
        if !buffer.is_empty() {
            self.remaining += buffer.len() as u64;
            self.buffers.push_back(buffer);
        }
    }

    /// Counts the body in `permit` until it is sent.
    ///
    /// # Errors
    /// [`ServeError::AnswerBudgetExhausted`] if too little of the budget is left.
    pub(crate) fn charged(mut self, permit: &Arc<BudgetPermit>) -> Result<Self, ServeError> {
        if self.remaining < charged_bytes::UNCHARGED as u64 {
            return Ok(self);
        }
        charged_bytes::count(permit, self.remaining as usize)?;
        for buffer in &mut self.buffers {
            *buffer = charged_bytes::charged(std::mem::take(buffer), Arc::clone(permit));
        }
        Ok(self)
    }

    /// Returns the body in one buffer; copies only if there are several.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        if self.buffers.len() <= 1 {
            return self.buffers.pop_front().unwrap_or_default();
        }
        let mut joined = BytesMut::with_capacity(self.remaining as usize);
        self.buffers.iter().for_each(|buffer| joined.extend_from_slice(buffer));
        joined.freeze()
    }
}

impl From<Bytes> for Body {
    fn from(buffer: Bytes) -> Self {
        let mut body = Self::default();
        body.push(buffer);
        body
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.buffers.pop_front();
        self.remaining -= next.as_ref().map_or(0, |buffer| buffer.len() as u64);
        Poll::Ready(next.map(|buffer| Ok(Frame::data(buffer))))
    }

    fn is_end_stream(&self) -> bool {
        self.buffers.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

/// Triton's limit on the chunks of a chunked body: each chunk costs the server far more than the client.
const MAX_CHUNKS: usize = 65_536;

/// Average size in bytes from which a chunked body may have more than [`MAX_CHUNKS`] pieces. Each read of the
/// connection returns a piece of a chunk, and rarely less than a packet. An eighth of a packet leaves room for shorter
/// reads.
const SMALL_CHUNK: usize = 192;

/// Reads a whole body, whose bytes count in `permit`.
///
/// # Errors
/// [`ServeError::TooLarge`] over the limit, [`ServeError::Invalid`] for a broken body, [`ServeError::TooSlow`] for a
/// slow client, [`ServeError::BodyBudgetExhausted`] while other requests hold too much of the budget.
pub(crate) async fn read(
    body: &mut Incoming,
    limits: BodyLimits<'_>,
    permit: &BudgetPermit,
) -> Result<Bytes, ServeError> {
    let announced = http_body::Body::size_hint(body);
    if announced.lower() > limits.size as u64 {
        return Err(too_large(limits));
    }
    let exact = announced.exact().map(|size| size as usize);
    read_frames(body, limits, exact, permit).await
}

async fn read_frames(
    body: &mut Incoming,
    limits: BodyLimits<'_>,
    exact: Option<usize>,
    permit: &BudgetPermit,
) -> Result<Bytes, ServeError> {
    let mut upload = limits.upload();
    let Some(first) = next_chunk(body, &mut upload, &limits).await? else {
        return Ok(Bytes::new());
    };
    if first.len() > limits.size {
        return Err(too_large(limits));
    }
    permit.resize(first.len())?;
    if exact == Some(first.len()) {
        return Ok(first);
    }
    let mut joined = BytesMut::with_capacity(exact.unwrap_or(first.len() * 2).min(RESERVED));
    joined.extend_from_slice(&first);
    let mut chunks = 1;
    while let Some(piece) = next_chunk(body, &mut upload, &limits).await? {
        chunks += 1;
        if joined.len() + piece.len() > limits.size {
            return Err(too_large(limits));
        }
        if exact.is_none() && are_too_many(chunks, joined.len()) {
            return Err(ServeError::Invalid(format!("request body has more than {MAX_CHUNKS} chunks")));
        }
        permit.resize(joined.len() + piece.len())?;
        joined.extend_from_slice(&piece);
    }
    Ok(joined.freeze())
}

/// Returns true if a chunked body of `bytes` bytes has more pieces than allowed.
fn are_too_many(pieces: usize, bytes: usize) -> bool {
    pieces > MAX_CHUNKS.max(bytes / SMALL_CHUNK)
}

fn too_large(limits: BodyLimits<'_>) -> ServeError {
    let advice = if limits.size > MAX_CONTROL_BODY {
        "Use --http-max-body-size to increase the limit."
    } else {
        "Only inference and load calls may have larger bodies, up to --http-max-body-size."
    };
    ServeError::TooLarge(format!("request body exceeds the maximum allowed size of {} bytes. {advice}", limits.size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_pieces_can_be_too_many() {
        assert!(!are_too_many(MAX_CHUNKS, MAX_CHUNKS));
        assert!(are_too_many(MAX_CHUNKS + 1, MAX_CHUNKS + 1));
        // One chunk of 1 GiB that arrives in packets.
        let packet = 1448;
        assert!(!are_too_many((1 << 30) / packet, 1 << 30));
        assert!(are_too_many((1 << 30) / 100, 1 << 30));
    }
}
