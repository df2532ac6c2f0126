//! Request bodies as they come, kept so that they can be sent again.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use crate::body::{Buffers, Grown, Portion};
use crate::clock::{now, until};
use crate::deadline::Deadline;
use crate::error::GatewayError;
use crate::upstream::{Chunks, RequestBody, Sender};

/// How much of a body is waited for before its request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferMode {
    /// All of it.
    Whole,
    /// At least this many bytes, then what comes within a moment: it may be a stream whose sender waits
    /// for an answer.
    FirstMessage,
    /// Nothing: it is a stream.
    Stream,
}

/// Bounds of what is kept.
pub(crate) struct Limits<'a> {
    pub(crate) size: usize,
    pub(crate) idle: Duration,
    pub(crate) deadline: Deadline,
    pub(crate) buffers: &'a Buffers,
    /// Cancelled when the gateway ends.
    pub(crate) ending: &'a CancellationToken,
}

/// A body as far as it was received.
pub(crate) struct BufferedBody {
    pub(crate) chunks: Chunks,
    trailers: Option<HeaderMap>,
    rest: Option<Incoming>,
    /// Who sends the rest, once that was handed on.
    sender: Option<Sender>,
    portion: Portion,
    size: usize,
}

/// A unary call's end may come just after its message.
const MOMENT: Duration = Duration::from_millis(5);

/// The length of the prefix of a gRPC message: a flag and four bytes of length.
const PREFIX: usize = 5;

/// Once the gateway ends, a client who sends nothing is not waited for as long as others: it would hold up
/// the end. Twice what the runtime gives: the gateway's clients are farther away.
const IDLE_AT_THE_END: Duration = Duration::from_secs(5);

enum Piece {
    Whole,
    Partial,
}

impl BufferedBody {
    /// Reads until the body ends, outgrows the bounds, or `mode` is over.
    pub(crate) async fn receive(
        mut body: Incoming,
        mode: BufferMode,
        limits: &Limits<'_>,
    ) -> Result<Self, GatewayError> {
        let mut buffered = Self {
            chunks: Chunks::new(),
            trailers: None,
            rest: None,
            sender: None,
            portion: limits.buffers.portion(),
            size: 0,
        };
        let is_large = body.size_hint().lower() > limits.size as u64;
        let is_read = match (is_large || mode == BufferMode::Stream, body.is_end_stream()) {
            (_, true) => true,
            (true, false) => false,
            (false, false) => matches!(buffered.read(&mut body, mode, limits).await?, Piece::Whole),
        };
        if !is_read {
            buffered.rest = Some(body);
        }
        Ok(buffered)
    }

    /// A body that was made here, of parts that others hold.
    pub(crate) fn made(chunks: Chunks, buffers: &Buffers) -> Self {
        Self {
            size: chunks.iter().map(Bytes::len).sum(),
            chunks,
            trailers: None,
            rest: None,
            sender: None,
            portion: buffers.portion(),
        }
    }

    async fn read(
        &mut self,
        body: &mut Incoming,
        mode: BufferMode,
        limits: &Limits<'_>,
    ) -> Result<Piece, GatewayError> {
        loop {
            let has_message = mode == BufferMode::FirstMessage && self.has_message();
            let pause = if has_message { MOMENT } else { limits.idle };
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = until(limits.deadline.at) => return Err(limits.deadline.late(now(), self.size)),
                _ = silence(pause, limits.ending), if has_message => return Ok(Piece::Partial),
                pause = silence(pause, limits.ending) => {
                    let pause = pause.as_secs_f32();
                    return Err(GatewayError::Body(format!("stalled for {pause} s")));
                }
            };
            let Some(frame) = frame else {
                return match body.size_hint().lower() {
                    0 => Ok(Piece::Whole),
                    // A stream that its client cancels ends as if it were whole.
                    left => Err(GatewayError::Body(format!(
                        "broke off {left} bytes before its end"
                    ))),
                };
            };
            let frame = frame.map_err(|error| GatewayError::Body(format!("broke off: {error}")))?;
            match frame.into_data() {
                Ok(data) => {
                    self.size += data.len();
                    let grown = self.portion.grow(data.len());
                    self.chunks.push(data);
                    if self.size > limits.size || grown == Grown::No {
                        return Ok(Piece::Partial);
                    }
                }
                Err(frame) => self.trailers = frame.into_trailers().ok(),
            }
            if body.is_end_stream() {
                return Ok(Piece::Whole);
            }
        }
    }

    /// Bytes that are kept.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The body to send, and whether it can be had again.
    pub(crate) fn to_request_body(&mut self) -> RequestBody {
        match self.rest.take() {
            Some(rest) => {
                let sender = self.sender.insert(Sender::default()).clone();
                RequestBody::streaming(std::mem::take(&mut self.chunks), rest, sender)
            }
            None => RequestBody::whole(self.chunks.clone(), self.trailers.clone()),
        }
    }

    /// The same once more, its bytes shared and counted in `portion`; nothing where that may not grow, or
    /// where a part of the body still comes.
    pub(crate) fn copied(&self, mut portion: Portion) -> Option<Self> {
        let is_here = self.is_whole() && portion.grow(self.size) == Grown::Yes;
        is_here.then(|| Self {
            chunks: self.chunks.clone(),
            trailers: self.trailers.clone(),
            rest: None,
            sender: None,
            portion,
            size: self.size,
        })
    }

    /// Whether all of it is here.
    pub(crate) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// Who sends what was handed on before it was here.
    pub(crate) fn sender(&self) -> Option<Sender> {
        self.sender.clone()
    }

    /// Whether its sender broke off after the rest of it was handed on.
    pub(crate) fn is_cut(&self) -> bool {
        self.sender.as_ref().is_some_and(Sender::is_gone)
    }

    /// All of it in one piece; copies where it came in several.
    pub(crate) fn whole(&self) -> Bytes {
        match &self.chunks[..] {
            [only] => only.clone(),
            several => several.concat().into(),
        }
    }

    /// The first bytes, up to `most`, for who has to look into a message.
    pub(crate) fn head(&self, most: usize) -> Cow<'_, [u8]> {
        let wanted = most.min(self.size);
        if let Some(head) = self.chunks.first().and_then(|first| first.get(..wanted)) {
            return Cow::Borrowed(head);
        }
        let mut head = Vec::with_capacity(wanted);
        for chunk in &self.chunks {
            let take = chunk.len().min(most - head.len());
            head.extend_from_slice(&chunk[..take]);
        }
        Cow::Owned(head)
    }

    /// Whether the first gRPC message is complete.
    fn has_message(&self) -> bool {
        let head = self.head(PREFIX);
        match *head {
            [_, a, b, c, d] => {
                let length = u32::from_be_bytes([a, b, c, d]) as usize;
                self.size - PREFIX >= length
            }
            _ => false,
        }
    }
}

/// Returns when a pause has become too long, and how long that was.
async fn silence(pause: Duration, ending: &CancellationToken) -> Duration {
    let at_the_end = async {
        ending.cancelled().await;
        tokio::time::sleep(IDLE_AT_THE_END).await;
    };
    tokio::select! {
        () = tokio::time::sleep(pause) => pause,
        () = at_the_end => IDLE_AT_THE_END,
    }
}

/// Most of a refused body that is read for nobody, so that its sender comes to read the answer.
const MAX_DISCARDED: usize = 1 << 20;

/// Some round trips of a slow network: longer nobody is waited for whose request is refused.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// Reads a body for nobody. What is too large or too slow is left; then the connection ends with the
/// answer.
pub(crate) async fn discard(mut body: Incoming) {
    if body.size_hint().lower() > MAX_DISCARDED as u64 {
        return;
    }
    let read = async {
        let mut left = MAX_DISCARDED;
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, bytes::Bytes::len);
            match left.checked_sub(size) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // Too slow is as good as read.
    let _ = tokio::time::timeout(DISCARD_TIME, read).await;
}
