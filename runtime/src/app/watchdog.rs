//! Looks for stuck batches on a thread of its own: one that runs on a reactor's thread may hold up all others.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::engine::StuckBatch;
use crate::server::Server;

/// Time between two looks: a stuck batch is found two of them after its limit, which is a minute or more.
const PERIOD: Duration = Duration::from_secs(1);

/// The watch over the batches; it ends when dropped.
pub(super) struct Watchdog {
    _ends: Sender<()>,
}

impl Watchdog {
    /// Starts the watch over a server's batches.
    ///
    /// # Errors
    /// The machine has no thread left.
    pub(super) fn start(server: Arc<Server>) -> std::io::Result<Self> {
        let (sender, ends) = channel();
        let watch = move || {
            while ends.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                if let Some(batch) = server.oversight().look(now()) {
                    end(&batch);
                }
            }
        };
        std::thread::Builder::new().name("weir-watchdog".to_owned()).spawn(watch)?;
        Ok(Self { _ends: sender })
    }
}

/// Ends the process at once. Libraries get no chance to clean up: a thread of theirs runs still, and never returns.
fn end(batch: &StuckBatch) -> ! {
    tracing::error!("{batch}, and holds a thread that serves connections: exiting");
    std::process::abort()
}

#[expect(clippy::disallowed_methods, reason = "the age of a batch is counted from its start on this clock")]
pub(super) fn now() -> Instant {
    Instant::now()
}
