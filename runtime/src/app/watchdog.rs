//! Looks for stuck batches on a thread of its own, because a batch stuck on a reactor thread may block all other tasks
//! there.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::engine::StuckBatch;
use crate::server::Server;

/// Time between two checks. A stuck batch is found at most two checks after its limit, which is a minute or more by
/// default.
const PERIOD: Duration = Duration::from_secs(1);

/// The thread that checks the batches; it ends when this value is dropped.
pub(super) struct Watchdog {
    _ends: Sender<()>,
}

impl Watchdog {
    /// Starts checking a server's batches.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start(server: Arc<Server>) -> std::io::Result<Self> {
        let (sender, ends) = channel();
        let watch = move || {
            while ends.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                if let Some(batch) = server.batch_monitor().look(now()) {
                    end(&batch);
                }
            }
        };
        std::thread::Builder::new().name("weir-watchdog".to_owned()).spawn(watch)?;
        Ok(Self { _ends: sender })
    }
}

/// Aborts the process at once. Exit handlers of libraries must not run, because one of the libraries' threads is still
/// inside the stuck batch and never returns.
fn end(batch: &StuckBatch) -> ! {
    tracing::error!("{batch}, and blocks a thread that serves connections: exiting");
    std::process::abort()
}

#[expect(clippy::disallowed_methods, reason = "the age of a batch is counted from its start on this clock")]
pub(super) fn now() -> Instant {
    Instant::now()
}
