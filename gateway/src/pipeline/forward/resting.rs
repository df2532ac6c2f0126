//! Lends a replica's credit to other requests while a gRPC stream rests: all messages of the client are answered, and
//! no new message has arrived. So clients that leave streams open cannot take all credits of a service.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use weir_serve::MessageFraming;
use weir_serve::header_names;

use crate::clock::timer_now;
use crate::queue::Credit;
use crate::upstream::UploadHandle;
use crate::wire::headers;

/// Rest before the credit is lent, if each message has one answer. A client that sends the next message after the
/// answer has sent it by then.
const ONE_ANSWER: Duration = Duration::from_millis(20);

/// Rest before the credit is lent, if a message may have any number of answers. It is longer than a model takes between
/// two answers.
const MANY_ANSWERS: Duration = Duration::from_secs(5);

/// Minimum rest after which a stream is ended during shutdown. A stream in use sends its next message earlier. A stream
/// that never rests may go on for as long as the shutdown allows.
const SHUTDOWN_REST: Duration = Duration::from_secs(1);

/// Number of answers to one message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerCount {
    One,
    /// Any number, unknown in advance.
    Many,
}

impl AnswerCount {
    /// Returns the number for the stream with this response head. A replica that reports its capacity is a
    /// `weir-runtime`, which sends one answer to each message.
    pub(super) fn of(head: &HeaderMap) -> Self {
        if header_names::has(head, &headers::CAPACITY) { Self::One } else { Self::Many }
    }

    /// Returns the rest after which the stream lends its credit.
    fn rest(self) -> Duration {
        match self {
            Self::One => ONE_ANSWER,
            Self::Many => MANY_ANSWERS,
        }
    }
}

/// Messages and answers of one stream.
pub(super) struct Resting {
    upload: UploadHandle,
    answers: MessageFraming,
    count: AnswerCount,
    timer: Pin<Box<Sleep>>,
    /// Time of the last answer, or of the start of the stream.
    since: Instant,
    /// Timer of the rest during shutdown; `None` until it is started.
    over: Option<Pin<Box<Sleep>>>,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Resting {
    pub(super) fn new(upload: UploadHandle, count: AnswerCount, shutdown: &CancellationToken) -> Self {
        Self {
            upload,
            answers: MessageFraming::default(),
            count,
            timer: Box::pin(tokio::time::sleep(count.rest())),
            since: timer_now(),
            over: None,
            shutdown: Box::pin(shutdown.clone().cancelled_owned()),
        }
    }

    /// Counts the messages in response data.
    pub(super) fn answer(&mut self, data: &[u8]) {
        self.answers.take(data);
        (self.since, self.over) = (timer_now(), None);
        self.timer.as_mut().reset(self.since + self.count.rest());
    }

    /// Returns true if every message is answered. More messages may come.
    pub(super) fn is_answered(&self) -> bool {
        let messages = self.upload.messages();
        messages.is_some_and(|messages| self.answers.ended() >= messages)
    }

    /// Lends the credit or takes it back, while the replica sends nothing.
    pub(super) fn poll(&mut self, credit: &mut Credit, context: &mut Context<'_>) {
        self.upload.wake(context.waker());
        if !self.is_answered() {
            credit.resume();
        } else if !credit.is_resting() && self.timer.as_mut().poll(context).is_ready() {
            credit.rest();
        }
    }

    /// Ready once the gateway shuts down and every message has been answered for a while. A stream without any answer
    /// is not over, because its first message is still to come.
    pub(super) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let shuts_down = self.shutdown.as_mut().poll(context).is_ready();
        if !shuts_down || self.answers.ended() == 0 || !self.is_answered() {
            return Poll::Pending;
        }
        let rest = self.count.rest().max(SHUTDOWN_REST);
        let until = self.since + rest;
        let over = self.over.get_or_insert_with(|| Box::pin(sleep_until(until)));
        over.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A complete gRPC message without content.
    const ANSWER: [u8; 5] = [0; 5];

    fn is_over(resting: &mut Resting) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        resting.poll_over(&mut context).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_with_all_its_answers_is_over_at_the_shutdown() {
        for (count, rest) in [(AnswerCount::One, SHUTDOWN_REST), (AnswerCount::Many, MANY_ANSWERS)] {
            let shutdown = CancellationToken::new();
            let mut resting = Resting::new(UploadHandle::default(), count, &shutdown);
            resting.answer(&ANSWER);
            tokio::time::advance(2 * MANY_ANSWERS).await;
            assert!(!is_over(&mut resting), "{count:?}");
            shutdown.cancel();
            resting.answer(&ANSWER);
            assert!(!is_over(&mut resting), "{count:?}: it may be in use");
            tokio::time::advance(rest + Duration::from_millis(2)).await;
            assert!(is_over(&mut resting), "{count:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_first_message_still_comes_is_not_over() {
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        let upload = UploadHandle::default();
        let mut resting = Resting::new(upload, AnswerCount::One, &shutdown);
        tokio::time::advance(2 * SHUTDOWN_REST).await;
        assert!(!is_over(&mut resting));
        resting.answer(&ANSWER);
        tokio::time::advance(2 * SHUTDOWN_REST).await;
        assert!(is_over(&mut resting));
    }
}
