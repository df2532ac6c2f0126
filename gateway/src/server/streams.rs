//! HTTP/2's streams, and clients that do not read theirs.
//!
//! An HTTP/1.1 client that stops reading is seen by its socket, which takes no more bytes. An HTTP/2 client
//! may go on reading its connection and leave one stream's window closed: then nobody asks that answer for
//! its next piece, and whatever it holds, a replica's credit above all, it would hold for ever. So each
//! stream's task is watched from outside: hyper hands them to an executor, which is ours.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::Sleep;
use tokio_util::task::TaskTracker;

/// What an answer's body last did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pace {
    /// Nothing since the last look.
    #[default]
    Still,
    /// It was asked for a piece and has none yet: the client is not to blame.
    Awaited,
    /// It gave a piece.
    Gave,
}

tokio::task_local! {
    static PACE: Cell<Pace>;
}

/// Notes what came of asking an answer's body for a piece. Without effect outside an HTTP/2 stream.
pub(crate) fn note<T>(asked: &Poll<T>) {
    let pace = match asked {
        Poll::Ready(_) => Pace::Gave,
        Poll::Pending => Pace::Awaited,
    };
    // Outside there is nobody to tell.
    let _ = PACE.try_with(|cell| cell.set(pace));
}

/// Runs the streams of one HTTP/2 connection.
#[derive(Clone)]
pub(super) struct Streams {
    tasks: TaskTracker,
    idle: Duration,
}

impl Streams {
    /// Whose client asks for no further piece of an answer for `idle` is reset.
    pub(super) fn new(tasks: TaskTracker, idle: Duration) -> Self {
        Self { tasks, idle }
    }
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let watched = watch(stream, self.idle);
        self.tasks.spawn(PACE.scope(Cell::default(), watched));
    }
}

/// Runs a stream to its end, or until its client has left a piece untaken for `idle`. Dropped, it is reset.
async fn watch(stream: impl Future, idle: Duration) {
    tokio::pin!(stream);
    let mut patience = None;
    std::future::poll_fn(|context| match stream.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => poll_patience(&mut patience, idle, context),
    })
    .await;
}

/// Ready once the client has asked for nothing more for `idle` since the last piece.
fn poll_patience(
    patience: &mut Option<Pin<Box<Sleep>>>,
    idle: Duration,
    context: &mut Context<'_>,
) -> Poll<()> {
    match PACE.with(Cell::take) {
        Pace::Still => {}
        Pace::Awaited => *patience = None,
        Pace::Gave => *patience = Some(Box::pin(tokio::time::sleep(idle))),
    }
    let Some(patience) = patience else {
        return Poll::Pending;
    };
    let over = patience.as_mut().poll(context);
    if over.is_ready() {
        tracing::debug!("a client takes nothing of an answer: its stream is reset");
    }
    over
}
