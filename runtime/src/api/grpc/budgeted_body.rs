//! Counts request messages, with the memory that they take when decoded, against the byte budget. A unary message
//! counts until its call is answered. A message of a stream counts until it has arrived whole; after that, the task
//! that answers the message counts it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use weir_protocol::grpc::{Footprint, TooManyParts};
use weir_serve::byte_budget::BudgetPermit;

use super::unary::{PREFIX, too_large, too_many_parts};

/// A request body whose bytes count against a budget.
pub(super) struct BudgetedBody {
    inner: Body,
    permit: Arc<BudgetPermit>,
    extent: Extent,
    messages: Messages,
}

/// The part of the body that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Everything since the start of the body; the number is the bytes received so far.
    Call(usize),
    /// Only the message that is arriving.
    Message,
}

/// A parser's position in a sequence of length-prefixed messages.
#[derive(Debug)]
struct Messages {
    content: Content,
    /// Limit on a message in bytes.
    limit: usize,
    /// Bytes received of the current message, including its prefix.
    arrived: usize,
    /// The length in the prefix, as far as the prefix was read.
    length: usize,
    footprint: Option<Footprint>,
}

/// The kind of a call's messages, which determines their limit and their decoded size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Infer,
    Load,
    /// Names and settings only.
    Control,
}

/// Limit in bytes on the messages of calls that only contain names or settings: about a hundred times what they need.
const MAX_CONTROL_MESSAGE: usize = 64 * 1024;

/// Returns the limit on messages of calls to `path`: `limit`, or a lower one for names and settings.
pub(super) fn longest_message(path: &str, limit: usize) -> usize {
    match Content::of(path) {
        Content::Infer | Content::Load => limit,
        Content::Control => limit.min(MAX_CONTROL_MESSAGE),
    }
}

impl BudgetedBody {
    /// Wraps the body of a call to `path`, to be counted in `permit`. A message larger than `limit` bytes is refused.
    pub(super) fn new(inner: Body, path: &str, limit: usize, permit: Arc<BudgetPermit>) -> Self {
        let content = Content::of(path);
        let extent = if path.ends_with("/ModelStreamInfer") { Extent::Message } else { Extent::Call(0) };
        Self { inner, permit, extent, messages: Messages::new(content, limit) }
    }

    fn count(&mut self, data: &[u8]) -> Result<(), Status> {
        let unfinished = self.messages.feed(data)?;
        let charged = match &mut self.extent {
            Extent::Call(bytes) => {
                *bytes += data.len();
                *bytes + self.messages.decoded_bytes()
            }
            Extent::Message if unfinished == 0 => 0,
            Extent::Message => unfinished + self.messages.decoded_bytes(),
        };
        self.permit.resize(charged).map_err(|exhausted| super::status(&exhausted.into()))
    }
}

impl Content {
    fn of(path: &str) -> Self {
        match path.rsplit('/').next() {
            Some("ModelInfer" | "ModelStreamInfer") => Self::Infer,
            Some("RepositoryModelLoad") => Self::Load,
            Some(_) | None => Self::Control,
        }
    }

    fn footprint(self, length: usize) -> Option<Footprint> {
        match self {
            Self::Infer => Some(Footprint::of_infer(length)),
            Self::Load => Some(Footprint::of_load(length)),
            Self::Control => None,
        }
    }
}

impl Messages {
    fn new(content: Content, limit: usize) -> Self {
        Self { content, limit, arrived: 0, length: 0, footprint: None }
    }

    /// Decoded size of the current message as far as it was read, in bytes.
    fn decoded_bytes(&self) -> usize {
        self.footprint.as_ref().map_or(0, Footprint::decoded_bytes)
    }

    /// Parses the next bytes; returns the number of bytes received of an unfinished message.
    fn feed(&mut self, mut data: &[u8]) -> Result<usize, Status> {
        while let Some((&byte, rest)) = data.split_first() {
            if self.arrived < PREFIX {
                self.prefix(byte)?;
                data = rest;
            } else {
                let missing = PREFIX + self.length - self.arrived;
                let (message, rest) = data.split_at(missing.min(data.len()));
                self.arrived += message.len();
                self.read(message).map_err(too_many_parts)?;
                data = rest;
            }
            if self.arrived == PREFIX + self.length && self.arrived >= PREFIX {
                self.arrived = 0;
            }
        }
        Ok(self.arrived)
    }

    fn prefix(&mut self, byte: u8) -> Result<(), Status> {
        if self.arrived == 0 {
            self.length = 0;
            self.footprint = None;
        } else {
            self.length = self.length << 8 | usize::from(byte);
        }
        self.arrived += 1;
        if self.arrived == PREFIX {
            if self.length > self.limit {
                return Err(too_large(self.length, self.limit));
            }
            self.footprint = self.content.footprint(self.length);
        }
        Ok(())
    }

    fn read(&mut self, message: &[u8]) -> Result<(), TooManyParts> {
        self.footprint.as_mut().map_or(Ok(()), |footprint| footprint.feed(message))
    }
}

impl HttpBody for BudgetedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
            && let Err(refused) = self.count(data)
        {
            return Poll::Ready(Some(Err(refused)));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(content: Content) -> Messages {
        Messages::new(content, 1 << 20)
    }

    #[test]
    fn only_the_unfinished_message_counts() {
        let mut messages = messages(Content::Infer);
        // One raw tensor of 257 bytes.
        let one = [&[0, 0, 0, 1, 4, 0x3a, 0x81, 2][..], &[7; 257]].concat();
        assert_eq!(messages.feed(&one[..3]).unwrap(), 3);
        assert_eq!(messages.feed(&one[3..100]).unwrap(), 100);
        assert_eq!(messages.feed(&one[100..]).unwrap(), 0);
        // An empty message, two whole messages and the beginning of another.
        let many = [&[0; 5], &one[..], &one, &one[..9]].concat();
        assert_eq!(messages.feed(&many).unwrap(), 9);
    }

    #[test]
    fn the_decoded_size_of_a_message_counts() {
        let budget = weir_serve::byte_budget::ByteBudget::new(100_000);
        let permit = Arc::new(budget.permit());
        let path = "/inference.GRPCInferenceService/ModelStreamInfer";
        let mut body = BudgetedBody::new(Body::empty(), path, 1 << 20, permit);
        // Empty inputs of two bytes each.
        body.count(&[0, 0, 0, 4, 0]).unwrap();
        body.count(&[0x2a, 0].repeat(50)).unwrap();
        assert!((10_000..50_000).contains(&budget.in_use()), "{}", budget.in_use());
        let refused = body.count(&[0x2a, 0].repeat(450)).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    }

    #[test]
    fn messages_with_names_only_have_a_lower_limit() {
        let limit = longest_message("/x/TraceSetting", 1 << 20);
        assert_eq!(limit, MAX_CONTROL_MESSAGE);
        let refused = Messages::new(Content::Control, limit).feed(&[0, 0, 1, 0, 1]);
        assert_eq!(refused.unwrap_err().code(), tonic::Code::OutOfRange);
        assert_eq!(longest_message("/x/ModelInfer", 1 << 20), 1 << 20);
        assert_eq!(longest_message("/x/RepositoryModelLoad", 1 << 20), 1 << 20);
    }
}
