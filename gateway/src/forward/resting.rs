//! Lends a replica's credit to others while a stream of gRPC messages rests: every message of its client is answered, and no
//! other has come. Clients that open streams and leave them so cannot take all credits of a service.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, Sleep};
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

/// Rest after which the stream with this response head lends its credit. A replica that reports its capacity is a runtime
/// of ours, which gives one answer for each message.
pub(super) fn after(head: &HeaderMap) -> Duration {
    if header_names::has(head, &headers::CAPACITY) {
        ONE_ANSWER
    } else {
        MANY_ANSWERS
    }
}

/// One stream's messages and answers.
pub(super) struct Resting {
    upload: UploadHandle,
    answers: MessageFraming,
    after: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Resting {
    pub(super) fn new(upload: UploadHandle, after: Duration) -> Self {
        Self {
            upload,
            answers: MessageFraming::default(),
            after,
            timer: Box::pin(tokio::time::sleep(after)),
        }
    }

    /// Counts data of the response.
    pub(super) fn answer(&mut self, data: &[u8]) {
        self.answers.take(data);
        self.timer.as_mut().reset(Instant::now() + self.after);
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
}
