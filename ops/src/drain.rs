//! Graceful shutdown: first not ready any more, then closed to new connections, then ended by a deadline.
//!
//! Between the first two lies a delay, because a load balancer learns of the first only after a
//! while and still sends requests until then.

mod hangup;

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

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
    pub async fn serve<W: Future>(
        &self,
        timeout: Duration,
        work: W,
    ) -> Result<W::Output, DeadlinePassed> {
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
        let hangup = if hangup::is_ignored() {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup,
        })
    }

    /// Begins `drain` at the first signal and closes it `delay` later; a second signal ends the process at
    /// once with exit code 1. SIGHUP never counts as the second: when a terminal closes, shell and kernel both
    /// send it. Never returns: the owner aborts it when the process is done.
    pub async fn run(mut self, drain: Drain, delay: Duration) {
        let name = self.first().await;
        tracing::info!(
            signal = name,
            "shutting down: finishing accepted requests; a second signal ends the process at once"
        );
        drain.begin();
        tokio::select! {
            () = tokio::time::sleep(delay) => drain.close(),
            name = self.second() => exit_now(name),
        }
        let name = self.second().await;
        exit_now(name);
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

    async fn second(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "a second signal asks to end without waiting for destructors"
)]
fn exit_now(signal: &'static str) {
    tracing::warn!(signal, "second signal: the process ends at once");
    std::process::exit(1);
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
}
