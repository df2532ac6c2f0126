//! Counts request messages against the byte budget: a unary one until it is answered, one of a stream
//! until it has arrived whole, because from there on the stream hands on one at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use weir_ops::byte_budget::BudgetPermit;

/// A request's body whose bytes count against a budget.
pub(super) struct BudgetedBody {
    inner: Body,
    permit: Arc<BudgetPermit>,
    extent: Extent,
}

/// The part of the body that is counted.
enum Extent {
    /// Everything since the body's beginning.
    Call(usize),
    /// Only the message that is arriving.
    Message(Messages),
}

/// The parser's position in a sequence of length-prefixed messages.
#[derive(Debug, Default)]
struct Messages {
    /// Bytes of the message that is arriving, its prefix included.
    arrived: usize,
    /// The length in its prefix, as far as it is read.
    length: usize,
}

/// A flag for compression and a length of four bytes come before each message.
const PREFIX: usize = 5;

impl BudgetedBody {
    /// The request, its body counted in `permit`.
    pub(super) fn around(request: Request<Body>, permit: Arc<BudgetPermit>) -> Request<Body> {
        let extent = if request.uri().path().ends_with("/ModelStreamInfer") {
            Extent::Message(Messages::default())
        } else {
            Extent::Call(0)
        };
        request.map(|inner| {
            Body::new(Self {
                inner,
                permit,
                extent,
            })
        })
    }

    fn count(&mut self, data: &[u8]) -> Result<(), Status> {
        let bytes = match &mut self.extent {
            Extent::Call(bytes) => {
                *bytes += data.len();
                *bytes
            }
            Extent::Message(messages) => messages.feed(data),
        };
        self.permit
            .resize(bytes)
            .map_err(|exhausted| super::status(&exhausted.into()))
    }
}

impl Messages {
    /// Takes the next bytes, and returns how many there are now of an unfinished message.
    fn feed(&mut self, mut data: &[u8]) -> usize {
        while let Some((&byte, rest)) = data.split_first() {
            if self.arrived < PREFIX {
                let flag = self.arrived == 0;
                self.length = if flag {
                    0
                } else {
                    self.length << 8 | usize::from(byte)
                };
                self.arrived += 1;
                data = rest;
            } else {
                let missing = PREFIX + self.length - self.arrived;
                let taken = missing.min(data.len());
                self.arrived += taken;
                data = &data[taken..];
            }
            if self.arrived == PREFIX + self.length && self.arrived >= PREFIX {
                *self = Self::default();
            }
        }
        self.arrived
    }
}

impl HttpBody for BudgetedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
            && let Err(full) = self.count(data)
        {
            return Poll::Ready(Some(Err(full)));
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

    #[test]
    fn only_the_unfinished_message_counts() {
        let mut messages = Messages::default();
        let one = [&[0, 0, 0, 1, 4][..], &[7; 260]].concat();
        assert_eq!(messages.feed(&one[..3]), 3);
        assert_eq!(messages.feed(&one[3..100]), 100);
        assert_eq!(messages.feed(&one[100..]), 0);
        // An empty message, two whole ones and the beginning of another.
        let many = [&[0; 5], &one[..], &one, &one[..9]].concat();
        assert_eq!(messages.feed(&many), 9);
    }
}
