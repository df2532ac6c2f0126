//! Resets HTTP/2 streams whose clients stop reading.
//!
//! An HTTP/1.1 client that stops reading is detected by its socket, which takes no more bytes. An HTTP/2 client
//! may go on reading its connection and leave one stream's window closed: then hyper does not poll that response's
//! body again, and whatever the body holds, a replica's credit above all, would never be released. So each
//! stream's task is watched from outside, by the executor that hyper spawns it on, and the body records each poll.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use hyper::rt::Executor;
use tokio::time::Sleep;
use tokio_util::task::TaskTracker;

/// Result of the last poll of a stream's response body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BodyProgress {
    /// It was not polled since the last check.
    #[default]
    NotPolled,
    /// It had no frame yet: the client is not to blame.
    Pending,
    /// It yielded a frame.
    Yielded,
}

tokio::task_local! {
    static PROGRESS: Cell<BodyProgress>;
}

/// A response body that records the result of each poll for its stream's task.
pub(super) struct WatchedBody<B>(pub(super) B);

impl<B: Body + Unpin> Body for WatchedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.0).poll_frame(context);
        let progress = match polled {
            Poll::Ready(_) => BodyProgress::Yielded,
            Poll::Pending => BodyProgress::Pending,
        };
        // On an HTTP/1.1 connection there is no stream to watch.
        let _ = PROGRESS.try_with(|cell| cell.set(progress));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// Spawns the stream tasks of HTTP/2 connections, and resets those whose clients stop reading.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    tasks: TaskTracker,
    idle: Duration,
}

impl StreamExecutor {
    /// An executor that resets a stream whose client takes no further frame for `idle`.
    pub(super) fn new(tasks: TaskTracker, idle: Duration) -> Self {
        Self { tasks, idle }
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let watched = watch(stream, self.idle);
        self.tasks.spawn(PROGRESS.scope(Cell::default(), watched));
    }
}

/// Runs a stream until it ends, or its client has taken nothing for `idle`. A stream that is dropped is reset.
async fn watch(stream: impl Future, idle: Duration) {
    tokio::pin!(stream);
    let mut stalled = None;
    std::future::poll_fn(|context| match stream.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => poll_stalled(&mut stalled, idle, context),
    })
    .await;
}

/// Ready once `idle` has passed since the last frame without another poll of the body.
fn poll_stalled(
    stalled: &mut Option<Pin<Box<Sleep>>>,
    idle: Duration,
    context: &mut Context<'_>,
) -> Poll<()> {
    match PROGRESS.with(Cell::take) {
        BodyProgress::NotPolled => {}
        BodyProgress::Pending => *stalled = None,
        BodyProgress::Yielded => *stalled = Some(Box::pin(tokio::time::sleep(idle))),
    }
    let Some(stalled) = stalled else {
        return Poll::Pending;
    };
    let is_over = stalled.as_mut().poll(context);
    if is_over.is_ready() {
        tracing::debug!("client stopped reading a response: its stream is reset");
    }
    is_over
}
