//! Graceful shutdown: first not ready any more, then closed to new connections, then ended by a deadline.
//!
//! Between the first two lies a delay, because a load balancer learns of the first only after a
//! while and still sends requests until then.

mod hangup;

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::exit_at_once;

/// Time after the first signal within which further ones belong to it. `timeout` signals its child and then its child's
/// group, and a shell that ends signals its jobs a second time: both within milliseconds. A person's second Ctrl-C
/// comes later.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// State of a graceful shutdown. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    begun: CancellationToken,
    closed: CancellationToken,
}

/// Error of work that did not end within its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("requests were still in flight {0:?} after the shutdown began")]
pub struct DeadlinePassed(pub Duration);

/// Handlers of SIGTERM, SIGINT and SIGHUP, active from the moment it is made.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// A closed terminal; absent in a process that was started to ignore it.
    hangup: Option<Signal>,
}

impl Drain {
    /// A shutdown that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the process not ready; it still serves new connections.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// Refuses new connections from now on. Begins the shutdown if it had not begun.
    pub fn close(&self) {
        self.begun.cancel();
        self.closed.cancel();
    }

    /// Token that is cancelled once the shutdown begins: readiness turns false.
    #[must_use]
    pub fn begun(&self) -> &CancellationToken {
        &self.begun
    }

    /// Token that is cancelled once new connections are refused: listeners close.
    #[must_use]
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Waits for `work`, which should end by itself once the shutdown begins; from then on it has `timeout` left,
    /// the delay included.
    ///
    /// # Errors
    /// [`DeadlinePassed`] when it did not end; it is dropped then.
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
    /// Catches the signals from now on; they no longer end the process by themselves. A process that was
    /// started to ignore SIGHUP, as `nohup` does, goes on ignoring it.
    ///
    /// # Errors
    /// When the process may not install signal handlers. Needs a tokio runtime.
    pub fn install() -> io::Result<Self> {
        let hangup = if hangup::is_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())?, hangup })
    }

    /// Begins `drain` at the first signal and closes it `delay` later; a second signal, half a second after the first
    /// or later, ends the process at once with exit code 1. SIGHUP never counts as the second: when a terminal closes,
    /// shell and kernel both send it. Never returns: the owner aborts it when the process is done.
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

/// The first signal that comes later than `pause` from now. Earlier ones are dropped, those too that are noticed late
/// because the process was busy: they are read before the pause is over.
async fn after(pause: Duration, mut next: impl FnMut(&mut Context<'_>) -> Poll<&'static str>) -> &'static str {
    let drop_all = poll_fn(|context| {
        while let Poll::Ready(signal) = next(context) {
            tracing::debug!(signal, "taken for a part of the first signal");
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
    async fn work_that_ends_is_waited_for() {
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
