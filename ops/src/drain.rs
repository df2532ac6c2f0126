//! Graceful shutdown in three steps: the process becomes not ready, then refuses new connections, then ends at a
//! deadline.
//!
//! A delay separates the first two steps: a load balancer takes a while to notice that the process is not ready, and
//! sends requests until then.

mod hangup;

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::exit_at_once;

/// Time after the first signal within which further signals count as the same request to stop. `timeout` signals its
/// child and then the child's process group, and a shell that exits signals its jobs a second time: both within
/// milliseconds. A user's second Ctrl-C comes later.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// State of a graceful shutdown. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    begun: CancellationToken,
    closed: CancellationToken,
}

/// Error of work that did not finish before the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("requests were still in flight {0:?} after the shutdown began")]
pub struct DeadlinePassed(pub Duration);

/// Handlers of SIGTERM, SIGINT and SIGHUP, active from [`install`](Self::install) on.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// SIGHUP, sent when the terminal closes; `None` in a process that was started with SIGHUP ignored.
    hangup: Option<Signal>,
}

impl Drain {
    /// Returns a shutdown that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the shutdown: the process becomes not ready, but still accepts new connections.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// Refuses new connections from now on. Begins the shutdown first if necessary.
    pub fn close(&self) {
        self.begun.cancel();
        self.closed.cancel();
    }

    /// Returns the token that is cancelled when the shutdown begins; readiness is false from then on.
    #[must_use]
    pub fn begun(&self) -> &CancellationToken {
        &self.begun
    }

    /// Returns the token that is cancelled when new connections are refused; listeners then close.
    #[must_use]
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Waits for `work`, which should end by itself once the shutdown begins. From then on `work` has `timeout` left,
    /// including the delay before new connections are refused.
    ///
    /// # Errors
    /// [`DeadlinePassed`] if `work` did not end in time; `work` is then dropped.
    pub async fn serve<W: Future>(&self, timeout: Duration, work: W) -> Result<W::Output, DeadlinePassed> {
        let deadline = async {
            self.begun.cancelled().await;
            tokio::time::sleep(timeout).await;
        };
        tokio::select! {
            biased;
            output = work => Ok(output),
            () = deadline => Err(DeadlinePassed(timeout)),
        }
    }
}

impl Signals {
    /// Installs the signal handlers; the signals no longer end the process by themselves. A process that was started
    /// with SIGHUP ignored, as `nohup` does, still ignores it. Needs a tokio runtime.
    ///
    /// # Errors
    /// Fails if the operating system refuses to install a handler.
    pub fn install() -> io::Result<Self> {
        let hangup = if hangup::is_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())?, hangup })
    }

    /// Begins `drain` at the first signal and closes it `delay` later. A second signal, at least half a second after
    /// the first, ends the process at once with exit code 1. SIGHUP never counts as the second signal, because shell
    /// and kernel both send it when a terminal closes. Never returns: the owner aborts it when the process is done.
    pub async fn run(mut self, drain: Drain, delay: Duration) {
        let name = self.first().await;
        tracing::info!(
            signal = name,
            "shutting down: finishing accepted requests; a second signal ends the process at once"
        );
        drain.begin();
        let close = async {
            tokio::time::sleep(delay).await;
            drain.close();
            std::future::pending().await
        };
        let name = tokio::select! {
            name = after(ONE_REQUEST, |context| self.poll_second(context)) => name,
            never = close => never,
        };
        tracing::warn!(signal = name, "second signal: the process ends at once");
        exit_at_once(1);
    }

    async fn first(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = hangup => "SIGHUP",
        }
    }

    fn poll_second(&mut self, context: &mut Context<'_>) -> Poll<&'static str> {
        if self.terminate.poll_recv(context).is_ready() {
            return Poll::Ready("SIGTERM");
        }
        self.interrupt.poll_recv(context).map(|_| "SIGINT")
    }
}

/// Returns the first signal that arrives more than `pause` from now. Earlier signals are dropped, including those that
/// a busy process reads late: pending signals are read before the pause ends.
async fn after(pause: Duration, mut next: impl FnMut(&mut Context<'_>) -> Poll<&'static str>) -> &'static str {
    let drop_all = poll_fn(|context| {
        while let Poll::Ready(signal) = next(context) {
            tracing::debug!(signal, "signal ignored: it repeats the first one");
        }
        Poll::<()>::Pending
    });
    let _ = tokio::time::timeout(pause, drop_all).await;
    poll_fn(next).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn serve_waits_for_work_that_ends() {
        let drain = Drain::new();
        drain.begin();
        let work = tokio::time::sleep(Duration::from_secs(3));
        assert_eq!(drain.serve(Duration::from_secs(5), work).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_is_dropped_at_the_deadline() {
        let drain = Drain::new();
        drain.close();
        assert!(drain.begun().is_cancelled());
        let timeout = Duration::from_secs(5);
        let ended = drain.serve(timeout, std::future::pending::<()>()).await;
        assert_eq!(ended, Err(DeadlinePassed(timeout)));
    }

    #[tokio::test(start_paused = true)]
    async fn before_the_shutdown_begins_there_is_no_deadline() {
        let drain = Drain::new();
        let work = tokio::time::sleep(Duration::from_secs(86_400));
        assert_eq!(drain.serve(Duration::ZERO, work).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn signals_within_half_a_second_are_one() {
        let (sender, mut signals) = tokio::sync::mpsc::unbounded_channel();
        #[expect(clippy::disallowed_methods, reason = "the test measures how long the drain takes")]
        let begun = tokio::time::Instant::now();
        for at in [0, 1, 400, 600] {
            let sender = sender.clone();
            tokio::spawn(async move {
                tokio::time::sleep_until(begun + Duration::from_millis(at)).await;
                let _ = sender.send("SIGTERM");
            });
        }
        let next = |context: &mut Context<'_>| signals.poll_recv(context).map(|name| name.unwrap_or("none"));
        assert_eq!(after(ONE_REQUEST, next).await, "SIGTERM");
        let passed = begun.elapsed();
        assert!(passed >= Duration::from_millis(600), "{passed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_that_a_busy_process_notices_late_is_part_of_the_first() {
        let (sender, mut signals) = tokio::sync::mpsc::unbounded_channel();
        sender.send("SIGINT").unwrap();
        let next = |context: &mut Context<'_>| signals.poll_recv(context).map(|name| name.unwrap_or("none"));
        let second = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            sender.send("SIGTERM").unwrap();
        });
        assert_eq!(after(Duration::ZERO, next).await, "SIGTERM");
        second.await.unwrap();
    }
}
