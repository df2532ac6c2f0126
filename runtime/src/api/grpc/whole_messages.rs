//! Collects request messages before tonic sees them, and decompresses them off the reactor, up to a limit and counted
//! while they grow. tonic would decompress on the reactor without counting. For a message that has not arrived, tonic
//! would also reserve the announced size: up to 2 GiB for a prefix of five bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame};
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::body::Body;
use weir_serve::byte_budget::BudgetPermit;

use super::unary::{PREFIX, too_large};
use crate::incoming::compression::Coding;

const ENCODING: &str = "grpc-encoding";

/// A request body that yields whole, decompressed messages.
pub(super) struct WholeMessages {
    inner: Body,
    coding: Coding,
    limits: MessageLimits,
    permit: Arc<BudgetPermit>,
    gathered: BytesMut,
    decompressing: Option<JoinHandle<Result<Bytes, Status>>>,
    /// A message whose prefix was already returned.
    message: Option<Bytes>,
}

/// Limits on a message, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageLimits {
    /// Limit on a message as it arrives.
    pub(super) size: usize,
    /// Limit on a message once it is decompressed.
    pub(super) decompressed: usize,
}

/// Removes the coding of a request's messages from its headers. Returns `Identity` for uncompressed messages, and for
/// unknown codings, which stay in the headers for tonic to refuse.
pub(super) fn take_coding(headers: &mut HeaderMap) -> Coding {
    let name = headers.get(ENCODING).and_then(|name| name.to_str().ok());
    let coding = [Coding::Gzip, Coding::Deflate].into_iter().find(|coding| Some(coding.name()) == name);
    if coding.is_some() {
        headers.remove(ENCODING);
    }
    coding.unwrap_or(Coding::Identity)
}

impl WholeMessages {
    pub(super) fn new(inner: Body, coding: Coding, limits: MessageLimits, permit: BudgetPermit) -> Self {
        Self {
            inner,
            coding,
            limits,
            permit: Arc::new(permit),
            gathered: BytesMut::new(),
            decompressing: None,
            message: None,
        }
    }

    fn gather(&mut self, data: &[u8]) -> Result<(), Status> {
        self.charge(self.gathered.len() + data.len())?;
        self.gathered.extend_from_slice(data);
        Ok(())
    }

    /// Returns the first message with its prefix, once it has arrived whole.
    fn take_message(&mut self) -> Result<Option<Bytes>, Status> {
        let [_, length @ ..] = match self.gathered.first_chunk::<PREFIX>() {
            Some(prefix) => *prefix,
            None => return Ok(None),
        };
        let length = u32::from_be_bytes(length) as usize;
        if length > self.limits.size {
            return Err(too_large(length, self.limits.size));
        }
        let is_whole = self.gathered.len() >= PREFIX + length;
        Ok(is_whole.then(|| self.gathered.split_to(PREFIX + length).freeze()))
    }

    fn decompress(&self, message: Bytes) -> JoinHandle<Result<Bytes, Status>> {
        let (coding, limit) = (self.coding, self.limits.decompressed);
        let permit = Arc::clone(&self.permit);
        tokio::task::spawn_blocking(move || {
            let compressed = message.slice(PREFIX..);
            let message = coding.decompress(compressed, limit, &permit);
            message.map_err(|error| super::status(&error))
        })
    }

    /// Returns a message unchanged. From here on, the consumer of the body counts it.
    fn pass(&mut self, message: Bytes) -> Result<Bytes, Status> {
        self.charge(self.gathered.len())?;
        Ok(message)
    }

    fn charge(&self, bytes: usize) -> Result<(), Status> {
        self.permit.resize(bytes).map_err(|exhausted| super::status(&exhausted.into()))
    }

    /// Stores a decompressed message, and returns its prefix. From here on, the consumer of the body counts the
    /// message.
    fn begin(&mut self, message: Bytes) -> Result<Bytes, Status> {
        self.charge(self.gathered.len())?;
        let mut prefix = BytesMut::with_capacity(PREFIX);
        prefix.put_u8(0);
        prefix.put_u32(message.len() as u32);
        self.message = Some(message);
        Ok(prefix.freeze())
    }
}

impl HttpBody for WholeMessages {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(message) = self.message.take() {
                return Poll::Ready(Some(Ok(Frame::data(message))));
            }
            if let Some(task) = &mut self.decompressing {
                let message = ready!(Pin::new(task).poll(context));
                self.decompressing = None;
                let message = message.unwrap_or_else(|error| Err(Status::internal(error.to_string())));
                let prefix = message.and_then(|message| self.begin(message));
                return Poll::Ready(Some(prefix.map(Frame::data)));
            }
            match self.take_message() {
                Err(refused) => return Poll::Ready(Some(Err(refused))),
                Ok(Some(message)) if message[0] == 1 && self.coding != Coding::Identity => {
                    self.decompressing = Some(self.decompress(message));
                    continue;
                }
                Ok(Some(message)) => return Poll::Ready(Some(self.pass(message).map(Frame::data))),
                Ok(None) => {}
            }
            match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                // An incomplete message is passed on, for tonic to refuse.
                None if !self.gathered.is_empty() => {
                    let rest = std::mem::take(&mut self.gathered).freeze();
                    return Poll::Ready(Some(Ok(Frame::data(rest))));
                }
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        if let Err(refused) = self.gather(&data) {
                            return Poll::Ready(Some(Err(refused)));
                        }
                    }
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full, StreamBody};
    use weir_serve::byte_budget::ByteBudget;

    use super::*;

    const LIMITS: MessageLimits = MessageLimits { size: 10_000, decompressed: 100_000 };

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        let length = (message.len() as u32).to_be_bytes();
        [&[flag], &length[..], message].concat()
    }

    fn compressed(message: &[u8]) -> Vec<u8> {
        framed(1, &Coding::Gzip.compress(message).unwrap())
    }

    async fn read(bytes: Vec<u8>, budget: &ByteBudget) -> Result<Vec<u8>, Status> {
        let body = Body::new(Full::from(bytes));
        let body = WholeMessages::new(body, Coding::Gzip, LIMITS, budget.permit());
        Ok(body.collect().await?.to_bytes().to_vec())
    }

    /// Returns the pieces of a body in the order in which they are yielded.
    async fn pieces(pieces: &[&'static [u8]]) -> Vec<Bytes> {
        let frame = |piece: &&'static [u8]| Ok::<_, Status>(Frame::data(Bytes::from_static(piece)));
        let frames: Vec<_> = pieces.iter().map(frame).collect();
        let body = Body::new(StreamBody::new(futures_util::stream::iter(frames)));
        let budget = ByteBudget::new(1_000_000);
        let mut body = WholeMessages::new(body, Coding::Identity, LIMITS, budget.permit());
        let mut out = Vec::new();
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            // The consumer counts the pieces that were yielded.
            assert!(budget.in_use() < 10, "{}", budget.in_use());
            out.push(data);
        }
        out
    }

    #[tokio::test]
    async fn a_prefix_is_yielded_with_its_message() {
        let out = pieces(&[b"\0\0\0", b"\0\x05he", b"llo\0\0", b"\0\0\0", b"\0\0\0"]).await;
        assert_eq!(out, [&b"\0\0\0\0\x05hello"[..], b"\0\0\0\0\0", b"\0\0\0"]);
    }

    #[tokio::test]
    async fn a_compressed_message_without_a_coding_is_passed_to_tonic() {
        assert_eq!(pieces(&[b"\x01\0\0\0\x01x"]).await, [&b"\x01\0\0\0\x01x"[..]]);
    }

    #[tokio::test]
    async fn messages_are_yielded_unchanged() {
        let budget = ByteBudget::new(1_000_000);
        let messages = [compressed(&[7; 5_000]), framed(0, b"plain"), compressed(b"")].concat();
        let plain = [framed(0, &[7; 5_000]), framed(0, b"plain"), framed(0, b"")].concat();
        assert_eq!(read(messages, &budget).await.unwrap(), plain);
        assert_eq!(read(vec![1, 0, 0], &budget).await.unwrap(), [1, 0, 0]);
        assert_eq!(budget.in_use(), 0);
    }

    #[tokio::test]
    async fn bombs_end_at_the_limit_and_at_the_budget() {
        let bomb = compressed(&vec![0; 1_000_000]);
        let large = read(bomb.clone(), &ByteBudget::new(1_000_000)).await;
        assert_eq!(large.unwrap_err().code(), tonic::Code::InvalidArgument);
        let full = read(bomb, &ByteBudget::new(80_000)).await;
        assert_eq!(full.unwrap_err().code(), tonic::Code::ResourceExhausted);
        let long = read(framed(1, &[0; 20_000]), &ByteBudget::default()).await;
        assert_eq!(long.unwrap_err().code(), tonic::Code::OutOfRange);
        let broken = read(framed(1, b"no gzip"), &ByteBudget::default()).await;
        assert_eq!(broken.unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}
