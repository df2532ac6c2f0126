//! Buffers request bodies, so that a request can be sent again.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use weir_protocol::grpc::PEEK_LIMIT;
use weir_serve::byte_budget::{BudgetPermit, ByteBudget, ExhaustedBy};
use weir_serve::{BodyEnd, Holder, Pace, TimedBody, Upload};

use crate::clock::{now, timer_now, until};
use crate::error::{ClientLimit, GatewayError};
use crate::rates::Meter;
use crate::upstream::{Chunks, RequestBody, UploadFailure, UploadHandle};
use crate::wire::deadline::Deadline;
use crate::wire::protocol::Protocol;

/// Part of a body that is buffered before its request is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferMode {
    /// The whole body, up to the size limit.
    Whole,
    /// The first gRPC message, and all that arrives within [`END_OF_STREAM_WAIT`] after it. The gateway does not wait
    /// longer, because the call may be a stream whose client waits for a response.
    FirstMessage,
    /// The first gRPC message of a stream. Only the deadline limits the wait for its first byte, because the request
    /// holds no credit until the message arrives.
    Stream,
}

/// Path of the V2 protocol's gRPC service. A request's path may have a prefix before it, which leads to a service.
const V2_SERVICE: &str = "/inference.GRPCInferenceService";

impl BufferMode {
    /// Returns the mode for a request's path. V2's methods are known to be unary or streaming; other methods are
    /// distinguished only by the arrival of their messages.
    pub(crate) fn of(protocol: Protocol, path: &str) -> Self {
        if protocol == Protocol::Http {
            return Self::Whole;
        }
        let (service, method) = path.rsplit_once('/').unwrap_or_default();
        match (service.ends_with(V2_SERVICE), method) {
            (true, "ModelStreamInfer") => Self::Stream,
            (true, _) => Self::Whole,
            (false, _) => Self::FirstMessage,
        }
    }
}

/// Part of a body that must be read before its request can be forwarded, even if the body is too large for the buffer
/// or the byte budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferNeed {
    Nothing,
    /// The beginning of the first message, in which the gateway searches for the model's name.
    ModelName,
}

impl BufferNeed {
    fn bytes(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::ModelName => MESSAGE_PREFIX + PEEK_LIMIT,
        }
    }
}

/// Limits for buffering one body.
pub(crate) struct BufferLimits<'a> {
    pub(crate) size: usize,
    pub(crate) need: BufferNeed,
    /// Longest pause between two chunks.
    pub(crate) idle: Duration,
    pub(crate) pace: Pace,
    pub(crate) end: BodyEnd,
    pub(crate) deadline: Deadline,
    pub(crate) budget: &'a ByteBudget,
    /// The client whose share of the budget the body takes; `None` if clients are not limited.
    pub(crate) holder: Option<Holder>,
    /// Cancelled when the gateway shuts down.
    pub(crate) shutdown: &'a CancellationToken,
}

/// The buffered part of a request's body, and the stream of the part that has not arrived yet.
pub(crate) struct BufferedBody {
    pub(crate) chunks: Chunks,
    trailers: Option<HeaderMap>,
    rest: Option<TimedBody<Incoming>>,
    /// State of the upload of `rest`; `None` if the whole body is buffered.
    upload: Option<UploadHandle>,
    permit: BudgetPermit,
    /// Set once the byte budget is exhausted: by all clients together, or by this client.
    exhausted: OnceLock<ExhaustedBy>,
    size: usize,
}

/// Time to wait for the end of a gRPC request after its first message. The end of a unary call may arrive shortly after
/// the message.
const END_OF_STREAM_WAIT: Duration = Duration::from_millis(5);

/// Bytes of a gRPC message's prefix: a flag and four bytes of length.
const MESSAGE_PREFIX: usize = 5;

/// Longest pause inside a body during shutdown, so that a stalled client does not delay it. Twice the runtime's,
/// because the gateway's clients are farther away.
const SHUTDOWN_IDLE: Duration = Duration::from_secs(5);

impl BufferedBody {
    /// Buffers a body until it ends, exceeds the limits, or its buffered part satisfies `mode`.
    pub(crate) async fn receive(
        mut body: Incoming,
        mode: BufferMode,
        limits: &BufferLimits<'_>,
    ) -> Result<Self, GatewayError> {
        let mut buffered = Self {
            chunks: Chunks::new(),
            trailers: None,
            rest: None,
            upload: None,
            permit: limits.budget.permit_of(limits.holder),
            exhausted: OnceLock::new(),
            size: 0,
        };
        let is_large = body.size_hint().lower() > limits.size as u64;
        let most = if is_large { 0 } else { limits.size };
        let is_unread = is_large && limits.need == BufferNeed::Nothing;
        let is_complete = body.is_end_stream() || (!is_unread && buffered.read(&mut body, mode, most, limits).await?);
        if !is_complete {
            buffered.rest = Some(buffered.timed(body, mode, limits));
            buffered.upload = Some(UploadHandle::default());
        }
        Ok(buffered)
    }

    /// Returns the unread part of a body as a stream with timeouts, to be forwarded as it arrives.
    fn timed(&self, rest: Incoming, mode: BufferMode, limits: &BufferLimits<'_>) -> TimedBody<Incoming> {
        let upload = Upload::new(limits.idle, limits.pace);
        let mut rest = match mode {
            BufferMode::Whole => TimedBody::whole(rest, upload),
            BufferMode::FirstMessage | BufferMode::Stream => TimedBody::messages(rest, upload),
        };
        rest = rest.with_end(limits.end);
        self.chunks.iter().for_each(|chunk| rest.take(chunk));
        rest
    }

    /// Creates a body from chunks that the gateway made. The permits of other bodies already cover the chunks' bytes.
    pub(crate) fn from_chunks(chunks: Chunks, budget: &ByteBudget) -> Self {
        Self {
            size: chunks.iter().map(Bytes::len).sum(),
            chunks,
            trailers: None,
            rest: None,
            upload: None,
            permit: budget.permit(),
            exhausted: OnceLock::new(),
        }
    }

    /// Reads until `mode` is satisfied or more than `most` bytes are buffered, but at least as much as `limits.need`
    /// requires. Returns true if the body is complete.
    async fn read(
        &mut self,
        body: &mut Incoming,
        mode: BufferMode,
        most: usize,
        limits: &BufferLimits<'_>,
    ) -> Result<bool, GatewayError> {
        let mut upload = Upload::new(limits.idle, limits.pace);
        let mut end_of_wait = None;
        loop {
            let has_message = mode != BufferMode::Whole && self.has_message();
            if has_message && (mode == BufferMode::Stream || has_passed(&mut end_of_wait)) {
                return Ok(false);
            }
            let rests = mode == BufferMode::Stream && self.size == 0;
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = until(limits.deadline.at) => return Err(limits.deadline.late(now(), self.size)),
                () = until(end_of_wait) => return Ok(false),
                error = stalled(&mut upload, limits.shutdown), if !rests => return Err(error),
                () = limits.shutdown.cancelled(), if rests => return Err(GatewayError::ShutsDown),
            };
            let Some(frame) = frame else {
                return match limits.end.check(body) {
                    Ok(()) => Ok(true),
                    Err(_) => Err(GatewayError::Body("broke off before its end".to_owned())),
                };
            };
            let frame = frame.map_err(|error| GatewayError::Body(format!("broke off: {error}")))?;
            match frame.into_data() {
                Ok(data) => {
                    self.size += data.len();
                    upload.add(data.len());
                    let has_room = self.charge(data.len());
                    join(&mut self.chunks, data);
                    let is_full = self.size > most || !has_room;
                    if is_full && self.size >= limits.need.bytes() {
                        return Ok(false);
                    }
                }
                Err(frame) => self.trailers = frame.into_trailers().ok(),
            }
            if body.is_end_stream() && mode != BufferMode::Stream {
                return Ok(true);
            }
        }
    }

    /// Charges the client for the body: for the buffered part now, and for the rest as it arrives.
    pub(crate) fn meter_by(&self, meter: &Meter) {
        meter.add_bytes(self.size, now());
        if let Some(upload) = &self.upload {
            upload.meter_by(meter.clone());
        }
    }

    /// Returns the number of buffered bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the body to send upstream. A body that has not arrived completely can be taken only once.
    pub(crate) fn take_request_body(&mut self) -> RequestBody {
        match (self.rest.take(), &self.upload) {
            (Some(rest), Some(upload)) => {
                let chunks = std::mem::take(&mut self.chunks);
                RequestBody::streaming(chunks, rest, upload.clone())
            }
            _ => RequestBody::whole(self.chunks.clone(), self.trailers.clone()),
        }
    }

    /// Returns a copy that shares the bytes and charges `permit` for them again; `None` if the byte budget is exhausted
    /// or part of the body has not arrived.
    pub(crate) fn try_clone(&self, permit: BudgetPermit) -> Option<Self> {
        let is_here = self.is_whole() && permit.grow(self.size).is_ok();
        is_here.then(|| Self {
            chunks: self.chunks.clone(),
            trailers: self.trailers.clone(),
            rest: None,
            upload: None,
            permit,
            exhausted: OnceLock::new(),
            size: self.size,
        })
    }

    /// Charges the body for further bytes, such as those of its decoded form; false if the byte budget is exhausted.
    pub(crate) fn charge(&self, more: usize) -> bool {
        let grown = self.permit.grow(more).map_err(|exhausted| self.exhausted.get_or_init(|| exhausted.by));
        grown.is_ok()
    }

    /// Returns the error of a request that cannot be routed because the byte budget had no room for its body.
    pub(crate) fn no_room(&self) -> GatewayError {
        match self.exhausted.get() {
            Some(ExhaustedBy::Client) => {
                GatewayError::OverLimit { limit: ClientLimit::Bytes, after: Duration::from_secs(1) }
            }
            Some(ExhaustedBy::All) | None => GatewayError::NoRoomToRoute,
        }
    }

    /// Returns true if the body has no unread part: all of it is buffered, or [`Self::take_request_body`] has taken the
    /// unread part.
    pub(crate) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// Returns true if the body can be sent: all of it is buffered, or its unread part was not taken yet.
    pub(crate) fn can_be_sent(&self) -> bool {
        self.upload.is_none() || self.rest.is_some()
    }

    /// Returns true if the buffered bytes and the announced length of the unread part exceed `most` bytes together.
    pub(crate) fn exceeds(&self, most: usize) -> bool {
        let unread = self.rest.as_ref().map_or(0, |rest| rest.size_hint().lower());
        (self.size as u64).saturating_add(unread) > most as u64
    }

    /// Returns the state of the upload of a body that is forwarded before it is complete; `None` for a whole body.
    pub(crate) fn upload(&self) -> Option<UploadHandle> {
        self.upload.clone()
    }

    /// Returns the cause for which the upload failed after the rest of the body was forwarded; `None` if it did not.
    pub(crate) fn upload_failure(&self) -> Option<UploadFailure> {
        self.upload.as_ref().and_then(UploadHandle::failure)
    }

    /// Returns the buffered bytes in one piece; copies them only if they arrived in several.
    pub(crate) fn whole(&self) -> Bytes {
        match &self.chunks[..] {
            [only] => only.clone(),
            several => several.concat().into(),
        }
    }

    /// Like [`Self::whole`], but charges the byte budget for a copy; `None` if the budget is exhausted.
    pub(crate) fn charged_whole(&self) -> Option<Bytes> {
        let is_copied = self.chunks.len() > 1;
        (!is_copied || self.charge(self.size)).then(|| self.whole())
    }

    /// Returns the first bytes, up to `most`; copies them only if they arrived in several chunks.
    pub(crate) fn head(&self, most: usize) -> Cow<'_, [u8]> {
        let wanted = most.min(self.size);
        if let Some(head) = self.chunks.first().and_then(|first| first.get(..wanted)) {
            return Cow::Borrowed(head);
        }
        let mut head = Vec::with_capacity(wanted);
        for chunk in &self.chunks {
            if head.len() == wanted {
                break;
            }
            let take = chunk.len().min(wanted - head.len());
            head.extend_from_slice(&chunk[..take]);
        }
        Cow::Owned(head)
    }

    /// Returns true if the first gRPC message is complete.
    fn has_message(&self) -> bool {
        let head = self.head(MESSAGE_PREFIX);
        match *head {
            [_, a, b, c, d] => {
                let length = u32::from_be_bytes([a, b, c, d]) as usize;
                self.size - MESSAGE_PREFIX >= length
            }
            _ => false,
        }
    }
}

/// Returns true if [`END_OF_STREAM_WAIT`] has passed since the first call, which sets its end.
fn has_passed(end_of_wait: &mut Option<Instant>) -> bool {
    let now = now();
    now >= *end_of_wait.get_or_insert(now + END_OF_STREAM_WAIT)
}

/// Pieces smaller than this many bytes are joined. A piece keeps alive a handle and the read buffer of which it is a
/// slice, and both together are many times as large as a small piece.
const SMALL_PIECE: usize = 1024;

/// Size in bytes up to which small pieces are joined: large compared with a handle, and cheap to copy as it grows.
const JOINED_PIECES: usize = 16 * 1024;

/// Appends a piece to a body; joins it with the last chunk if both are small.
fn join(chunks: &mut Chunks, piece: Bytes) {
    let joins = |last: &&mut Bytes| {
        let is_cheap = last.len() < SMALL_PIECE || last.is_unique();
        piece.len() < SMALL_PIECE && last.len() < JOINED_PIECES && is_cheap
    };
    let Some(last) = chunks.last_mut().filter(joins) else {
        chunks.push(piece);
        return;
    };
    let mut joined = match std::mem::take(last).try_into_mut() {
        Ok(own) => own,
        Err(shared) => BytesMut::from(&shared[..]),
    };
    joined.extend_from_slice(&piece);
    *last = joined.freeze();
}

/// Returns an error once a pause in the upload has lasted too long; during shutdown that is [`SHUTDOWN_IDLE`]. A client
/// may retry after `SlowBody`, but not after the error during shutdown.
async fn stalled(upload: &mut Upload, shutdown: &CancellationToken) -> GatewayError {
    let pause = upload.longest_wait(timer_now());
    tokio::select! {
        () = tokio::time::sleep(pause) => GatewayError::SlowBody(pause),
        error = shut_down(shutdown) => error,
    }
}

/// Returns an error after a pause of [`SHUTDOWN_IDLE`] during shutdown.
async fn shut_down(shutdown: &CancellationToken) -> GatewayError {
    shutdown.cancelled().await;
    tokio::time::sleep(SHUTDOWN_IDLE).await;
    let pause = SHUTDOWN_IDLE.as_secs_f32();
    GatewayError::Body(format!("stalled for {pause} s"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joined(pieces: &[Bytes]) -> Chunks {
        let mut chunks = Chunks::new();
        pieces.iter().for_each(|piece| join(&mut chunks, piece.clone()));
        chunks
    }

    #[test]
    fn bytes_that_arrive_one_by_one_are_joined() {
        let read = Bytes::from(vec![7; 100_000]);
        let pieces: Vec<Bytes> = (0..read.len()).map(|i| read.slice(i..=i)).collect();
        let chunks = joined(&pieces);
        assert_eq!(chunks.concat(), read);
        assert!(chunks.len() <= 7, "{} chunks", chunks.len());
    }

    #[test]
    fn large_pieces_are_not_copied() {
        let read = Bytes::from(vec![7; 4 * SMALL_PIECE]);
        let (first, second) = (read.slice(..SMALL_PIECE), read.slice(SMALL_PIECE..));
        let chunks = joined(&[first.clone(), second.clone(), Bytes::from_static(b"end")]);
        assert_eq!(chunks[0].as_ptr(), first.as_ptr());
        assert_eq!(chunks[1].as_ptr(), second.as_ptr());
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_or_moved(sizes in prop::collection::vec(0..3_000_usize, 0..30)) {
            let pieces: Vec<Bytes> = sizes
                .iter()
                .enumerate()
                .map(|(index, size)| Bytes::from(vec![index as u8; *size]))
                .collect();
            prop_assert_eq!(joined(&pieces).concat(), pieces.concat());
        }
    }
}
