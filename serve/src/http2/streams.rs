//! Resets HTTP/2 streams whose clients stop reading.
//!
//! An HTTP/1.1 client that stops reading is detected by its socket, which takes no more bytes. An HTTP/2 client may go
//! on reading its connection and leave one stream's window closed. Then hyper no longer polls that response's body, and
//! everything that the body holds, such as a replica's credit, would never be released. So each stream's task is
//! watched from outside, by the executor that hyper spawns it on, and the body records each poll.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tokio_util::task::TaskTracker;

use crate::ConnectionLimits;
use crate::bounds::places::{ClientStreams, OpenStream};
use crate::clock;

/// Result of the last poll of a stream's response body since the stream's task checked it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StreamProgress {
    /// The body was not polled since the last check.
    #[default]
    NotPolled,
    /// The body had no frame yet, so the client is not stalling.
    Pending,
    /// The body yielded a frame, or the response began.
    Yielded,
}

tokio::task_local! {
    static PROGRESS: Cell<StreamProgress>;
}

/// Records progress for the current stream's task. Does nothing on an HTTP/1.1 connection, which has no streams.
pub(crate) fn record(progress: StreamProgress) {
    let _ = PROGRESS.try_with(|cell| cell.set(progress));
}

/// Returns true in the task of an HTTP/2 stream.
pub(crate) fn is_watched() -> bool {
    PROGRESS.try_with(|_| ()).is_ok()
}

/// Executor that spawns the stream tasks of HTTP/2 connections, and resets streams whose clients stop reading.
#[derive(Clone, Debug)]
pub(crate) struct StreamExecutor {
    tasks: TaskTracker,
    stall: Duration,
    client: Option<ClientStreams>,
}

impl StreamExecutor {
    /// Returns an executor that resets a stream whose client reads its frames too slowly.
    pub(crate) fn new(tasks: TaskTracker, limits: &ConnectionLimits) -> Self {
        Self { tasks, stall: limits.stall, client: None }
    }

    /// Returns this executor for a connection of `client`; streams beyond the client's limit are reset.
    pub(crate) fn of(&self, client: Option<ClientStreams>) -> Self {
        Self { client, ..self.clone() }
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let opened = match &self.client {
            Some(client) => match client.open() {
                Some(open) => Some(open),
                None => return tracing::debug!("reset a stream: the client has too many open streams"),
            },
            None => None,
        };
        let watched = WatchedStream { stream, timer: StallTimer::default(), stall: self.stall, opened };
        self.tasks.spawn(PROGRESS.scope(Cell::default(), watched));
    }
}

pin_project! {
    /// A stream's task, which ends with the stream or when its client reads too little for too long. Dropping the task
    /// resets the stream.
    ///
    /// The future is written by hand, because an `async` block would store the stream twice, and each task is copied as
    /// it begins and ends.
    struct WatchedStream<F> {
        #[pin]
        stream: F,
        timer: StallTimer,
        stall: Duration,
        opened: Option<OpenStream>,
    }
}

impl<F: Future> Future for WatchedStream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let watched = self.project();
        match watched.stream.poll(context) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => watched.timer.poll(*watched.stall, context),
        }
    }
}

/// Timer of a stream, allocated once and reset with each frame.
#[derive(Default)]
struct StallTimer {
    timer: Option<Pin<Box<Sleep>>>,
    /// True from a frame until the next poll of the body.
    runs: bool,
}

impl StallTimer {
    /// Returns ready if the body has not been polled again for `stall` since its last frame.
    fn poll(&mut self, stall: Duration, context: &mut Context<'_>) -> Poll<()> {
        match PROGRESS.with(Cell::take) {
            StreamProgress::NotPolled => {}
            StreamProgress::Pending => self.runs = false,
            StreamProgress::Yielded => self.start(stall),
        }
        match &mut self.timer {
            Some(timer) if self.runs => {
                let is_over = timer.as_mut().poll(context);
                if is_over.is_ready() {
                    tracing::debug!("reset a stream: the client stopped reading the response");
                }
                is_over
            }
            Some(_) | None => Poll::Pending,
        }
    }

    fn start(&mut self, stall: Duration) {
        self.runs = true;
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(clock::now() + stall),
            None => self.timer = Some(Box::pin(tokio::time::sleep(stall))),
        }
    }
}
