//! Lends a replica's credit to others while a stream of gRPC messages rests: every message of its client is answered, and no
//! other has come. Clients that open streams and leave them so cannot take all credits of a service.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use weir_ops::header_names;
use weir_ops::socket::MessageFraming;

use crate::headers;
use crate::queue::Credit;
use crate::upstream::UploadHandle;

/// Rest before the credit is lent, where each message has one answer: clients that send the next message when they have
/// the answer have sent it by then.
const ONE_ANSWER: Duration = Duration::from_millis(20);

/// The same where a message may have many answers, which nothing tells beforehand: longer than a model takes from one
/// to the next.
const MANY_ANSWERS: Duration = Duration::from_secs(5);

/// Rest after which a stream ends with the gateway, at least: one in use sends its next message sooner. One that does not
/// stop has all the time that the gateway has.
const AT_THE_END: Duration = Duration::from_secs(1);

/// How many answers a message of a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerCount {
    One,
    /// Any number, which nothing tells beforehand.
    Many,
}

impl AnswerCount {
    /// The number for the stream with this response head. A replica that reports its capacity is a runtime of ours, which
    /// gives one answer for each message.
    pub(super) fn of(head: &HeaderMap) -> Self {
        if header_names::has(head, &headers::CAPACITY) { Self::One } else { Self::Many }
    }

    /// Rest after which the stream lends its credit.
    fn rest(self) -> Duration {
        match self {
            Self::One => ONE_ANSWER,
            Self::Many => MANY_ANSWERS,
        }
    }
}

/// One stream's messages and answers.
pub(super) struct Resting {
    upload: UploadHandle,
    answers: MessageFraming,
    count: AnswerCount,
    timer: Pin<Box<Sleep>>,
    /// Time of the last answer, or of the beginning.
    since: Instant,
    /// Of a rest at the end; `None` until there is one.
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
            since: Instant::now(),
            over: None,
            shutdown: Box::pin(shutdown.clone().cancelled_owned()),
        }
    }

    /// Counts data of the response.
    pub(super) fn answer(&mut self, data: &[u8]) {
        self.answers.take(data);
        (self.since, self.over) = (Instant::now(), None);
        self.timer.as_mut().reset(self.since + self.count.rest());
    }

    /// True if every message is answered, and more may come.
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

    /// Ready once the gateway shuts down and the client has waited for no answer for a while. Without any answer the first
    /// message still comes.
    pub(super) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let shuts_down = self.shutdown.as_mut().poll(context).is_ready();
        if !shuts_down || self.answers.ended() == 0 || !self.is_answered() {
            return Poll::Pending;
        }
        let rest = self.count.rest().max(AT_THE_END);
        let until = self.since + rest;
        let over = self.over.get_or_insert_with(|| Box::pin(sleep_until(until)));
        over.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A whole message, without content.
    const ANSWER: [u8; 5] = [0; 5];

    fn is_over(resting: &mut Resting) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        resting.poll_over(&mut context).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_with_all_its_answers_is_over_at_the_shutdown() {
        for (count, rest) in [(AnswerCount::One, AT_THE_END), (AnswerCount::Many, MANY_ANSWERS)] {
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
        tokio::time::advance(2 * AT_THE_END).await;
        assert!(!is_over(&mut resting));
        resting.answer(&ANSWER);
        tokio::time::advance(2 * AT_THE_END).await;
        assert!(is_over(&mut resting));
    }
}
