//! Counts request messages against the byte budget, with what they take decoded: a unary one until it is
//! answered, one of a stream until it has arrived whole, because from there on its own task holds it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use weir_ops::byte_budget::BudgetPermit;
use weir_protocol::grpc::{Footprint, TooManyParts};

use super::unary::{PREFIX, too_large, too_many_parts};

/// A request's body whose bytes count against a budget.
pub(super) struct BudgetedBody {
    inner: Body,
    permit: Arc<BudgetPermit>,
    extent: Extent,
    messages: Messages,
}

/// The part of the body that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Everything since the body's beginning, of which that many bytes have come.
    Call(usize),
    /// Only the message that is arriving.
    Message,
}

/// The parser's position in a sequence of length-prefixed messages.
#[derive(Debug)]
struct Messages {
    content: Content,
    /// Largest message in bytes.
    limit: usize,
    /// Bytes of the message that is arriving, its prefix included.
    arrived: usize,
    /// The length in its prefix, as far as it is read.
    length: usize,
    footprint: Option<Footprint>,
}

/// The messages of a call, as far as their size goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Infer,
    Load,
    /// Only names and settings.
    Control,
}

/// Limit on the messages of calls that only name something or change a setting, in bytes: some hundred times what
/// they have.
const MAX_CONTROL_MESSAGE: usize = 64 * 1024;

/// Limit on the messages of calls to `path`, of those of any call: that on names and settings is lower.
pub(super) fn longest_message(path: &str, limit: usize) -> usize {
    match Content::of(path) {
        Content::Infer | Content::Load => limit,
        Content::Control => limit.min(MAX_CONTROL_MESSAGE),
    }
}

impl BudgetedBody {
    /// The body of a call to `path`, counted in `permit`. A message larger than `limit` bytes is refused.
    pub(super) fn new(inner: Body, path: &str, limit: usize, permit: Arc<BudgetPermit>) -> Self {
        let content = Content::of(path);
        let extent = if path.ends_with("/ModelStreamInfer") { Extent::Message } else { Extent::Call(0) };
        Self { inner, permit, extent, messages: Messages::new(content, limit) }
    }

    fn count(&mut self, data: &[u8]) -> Result<(), Status> {
        let unfinished = self.messages.feed(data)?;
        let held = match &mut self.extent {
            Extent::Call(bytes) => {
                *bytes += data.len();
                *bytes + self.messages.decoded_bytes()
            }
            Extent::Message if unfinished == 0 => 0,
            Extent::Message => unfinished + self.messages.decoded_bytes(),
        };
        self.permit.resize(held).map_err(|exhausted| super::status(&exhausted.into()))
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

    /// Bytes that the message at hand takes decoded, so far.
    fn decoded_bytes(&self) -> usize {
        self.footprint.as_ref().map_or(0, Footprint::decoded_bytes)
    }

    /// Takes the next bytes, and returns how many there are now of an unfinished message.
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
        // An empty message, two whole ones and the beginning of another.
        let many = [&[0; 5], &one[..], &one, &one[..9]].concat();
        assert_eq!(messages.feed(&many).unwrap(), 9);
    }

    #[test]
    fn what_a_message_takes_decoded_counts() {
        let budget = weir_ops::byte_budget::ByteBudget::new(100_000);
        let permit = Arc::new(budget.permit());
        let path = "/inference.GRPCInferenceService/ModelStreamInfer";
        let mut body = BudgetedBody::new(Body::empty(), path, 1 << 20, permit);
        // Empty inputs: two bytes each.
        body.count(&[0, 0, 0, 4, 0]).unwrap();
        body.count(&[0x2a, 0].repeat(50)).unwrap();
        assert!((10_000..50_000).contains(&budget.in_use()), "{}", budget.in_use());
        let refused = body.count(&[0x2a, 0].repeat(450)).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    }

    #[test]
    fn messages_that_name_something_are_small() {
        let limit = longest_message("/x/TraceSetting", 1 << 20);
        assert_eq!(limit, MAX_CONTROL_MESSAGE);
        let refused = Messages::new(Content::Control, limit).feed(&[0, 0, 1, 0, 1]);
        assert_eq!(refused.unwrap_err().code(), tonic::Code::OutOfRange);
        assert_eq!(longest_message("/x/ModelInfer", 1 << 20), 1 << 20);
        assert_eq!(longest_message("/x/RepositoryModelLoad", 1 << 20), 1 << 20);
    }
}
