//! Counts what request messages hold: a unary one until it is answered, one of a stream until it has
//! arrived whole, because from there on the stream hands on one at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use crate::intake::Portion;

/// A request's body whose bytes are counted.
pub(super) struct BudgetedBody {
    inner: Body,
    portion: Arc<Portion>,
    extent: Extent,
}

/// How far counted bytes reach back.
enum Extent {
    /// To the beginning.
    Call(usize),
    /// To where the message began that is arriving.
    Message(Messages),
}

/// Where a sequence of length-prefixed messages stands.
#[derive(Debug, Default)]
struct Messages {
    /// Bytes there are of the message that is arriving, its prefix included.
    arrived: usize,
    /// The length in its prefix, as far as it is read.
    length: usize,
}

/// A flag for compression and a length of four bytes come before each message.
const PREFIX: usize = 5;

impl BudgetedBody {
    /// The request, its body counted in `portion`.
    pub(super) fn around(request: Request<Body>, portion: Arc<Portion>) -> Request<Body> {
        let extent = if request.uri().path().ends_with("/ModelStreamInfer") {
            Extent::Message(Messages::default())
        } else {
            Extent::Call(0)
        };
        request.map(|inner| {
            Body::new(Self {
                inner,
                portion,
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
        self.portion
            .hold(bytes)
            .map_err(|error| super::status(&error))
    }
}

impl Messages {
    /// Takes what came next; the bytes there now are of an unfinished message.
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
