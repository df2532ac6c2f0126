//! A request body that fails if its client stalls, for readers that set no timeouts themselves.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use crate::clock;
use crate::{BodyEnd, MessageFraming, Upload};

/// Error of an upload that stalled or was too slow. The value is the longest wait for the next bytes that was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body stalled for {} s, or arrived too slowly", .0.as_secs_f32())]
pub struct Stalled(pub Duration);

/// A body that fails if its client stalls, is too slow or disconnects.
#[derive(Debug)]
pub struct TimedBody<B> {
    body: B,
    upload: Upload,
    /// Framing of a stream of gRPC messages, between which any time may pass; `None` applies the timeout to the whole
    /// body.
    framing: Option<MessageFraming>,
    end: BodyEnd,
    timer: Option<(Duration, Pin<Box<Sleep>>)>,
}

impl<B> TimedBody<B> {
    /// Wraps a body to which the timeout applies as a whole.
    #[must_use]
    pub fn whole(body: B, upload: Upload) -> Self {
        Self::new(body, upload, None)
    }

    /// Wraps a body of gRPC messages. The timeout applies to each message once it has begun.
    #[must_use]
    pub fn messages(body: B, upload: Upload) -> Self {
        Self::new(body, upload, Some(MessageFraming::default()))
    }

    fn new(body: B, upload: Upload, framing: Option<MessageFraming>) -> Self {
        Self { body, upload, framing, end: BodyEnd::default(), timer: None }
    }

    /// Sets how the end of the body is recognised.
    #[must_use]
    pub fn with_end(self, end: BodyEnd) -> Self {
        Self { end, ..self }
    }

    /// Returns the wrapped body.
    #[must_use]
    pub fn into_inner(self) -> B {
        self.body
    }

    /// Counts data that the caller read from the body before wrapping it.
    pub fn take(&mut self, data: &[u8]) {
        self.upload.add(data.len());
        if let Some(framing) = &mut self.framing {
            framing.take(data);
        }
        if !self.is_due() {
            self.upload.restart();
        }
    }

    /// Returns the number of messages received completely; 0 if the body is not a stream of messages.
    pub fn messages_ended(&self) -> u64 {
        self.framing.map_or(0, |framing| framing.ended())
    }

    fn is_due(&self) -> bool {
        self.framing.is_none_or(|framing| framing.is_within())
    }

    /// Returns ready once the wait for the next frame has been too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Stalled> {
        if !self.is_due() {
            return Poll::Pending;
        }
        let (pause, timer) = match &mut self.timer {
            Some(timer) => timer,
            None => {
                let pause = self.upload.longest_wait(clock::now());
                self.timer.insert((pause, Box::pin(tokio::time::sleep(pause))))
            }
        };
        timer.as_mut().poll(context).map(|()| Stalled(*pause))
    }
}

impl<B> Body for TimedBody<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(None) => {
                let cut = self.end.check(&self.body).err();
                Poll::Ready(cut.map(|cut| Err(cut.into())))
            }
            Poll::Ready(frame) => {
                self.timer = None;
                if let Some(Ok(frame)) = &frame
                    && let Some(data) = frame.data_ref()
                {
                    self.take(data);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => self.poll_late(context).map(|stalled| Some(Err(stalled.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::BodyExt;
    use tokio::sync::mpsc;

    use super::*;
    use crate::Pace;

    fn upload() -> Upload {
        let pace = Pace { grace: Duration::from_secs(30), rate: 1024 };
        Upload::new(Duration::from_secs(30), pace)
    }

    /// A body that yields what is sent to its channel.
    struct Pieces(mpsc::Receiver<Bytes>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let piece = self.0.poll_recv(context);
            piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
        }
    }

    /// Returns the seconds after which a body fails if one of `pieces` arrives every `every` seconds; `None` if it does
    /// not fail.
    async fn given_up_after(
        timed: impl FnOnce(Pieces, Upload) -> TimedBody<Pieces>,
        pieces: &[&'static [u8]],
        every: u64,
    ) -> Option<u64> {
        let begin = crate::clock::now();
        let (sender, receiver) = mpsc::channel(1);
        let body = timed(Pieces(receiver), upload());
        let send = async {
            for piece in pieces {
                tokio::time::sleep(Duration::from_secs(every)).await;
                if sender.send(Bytes::from_static(piece)).await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_secs(10_000)).await;
        };
        let read = async {
            let error = body.collect().await.err()?;
            error.downcast_ref::<Stalled>()?;
            Some(begin.elapsed().as_secs())
        };
        tokio::select! {
            after = read => after,
            () = send => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_or_crawls_fails() {
        assert_eq!(given_up_after(TimedBody::whole, &[], 1).await, Some(30));
        let crawling: [&[u8]; 99] = [b"x"; 99];
        let after = given_up_after(TimedBody::whole, &crawling, 29).await;
        assert_eq!(after, Some(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_may_pause_between_messages_but_not_within_one() {
        const MESSAGE: &[u8] = &[0, 0, 0, 0, 1, 7];
        let after = given_up_after(TimedBody::messages, &[MESSAGE; 9], 100).await;
        assert_eq!(after, None);
        let pieces = [MESSAGE, &MESSAGE[..5]];
        let after = given_up_after(TimedBody::messages, &pieces, 100).await;
        assert_eq!(after, Some(230));
    }
}
