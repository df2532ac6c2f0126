//! Runs short batches on the reactor thread that received the request.
//!
//! An instance has its own thread, so that a long run blocks no socket. For a run of a few microseconds, the change to
//! that thread and back costs more than the run: two thread wake-ups and four context switches. So while the instance's
//! thread sleeps, the task that queued a request runs the batch itself.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use weir_batcher::{Batcher, InlineRun, InlineStart, Ticket};

use super::JobResult;
use super::runner::Runner;
use crate::model::job::Job;

/// An instance that any thread may run, one at a time.
pub(super) type SharedRunner = Arc<Mutex<Runner>>;

/// Longest batch that runs on a reactor with one thread. Handing over to the instance's thread and back costs 40 to 90
/// µs. If both threads share a core, the reactor would wait for a batch this short anyway: the kernel interrupts a
/// thread only after a time slice of about 3 ms.
const SHORT_ON_ONE_THREAD: Duration = Duration::from_millis(2);

/// Longest batch that runs on a reactor with several threads. One of them at a time polls the sockets, and it may be
/// the one that runs the batch. So the pause must be no longer than decoding a request of 250 kB.
const SHORT_ON_SEVERAL_THREADS: Duration = Duration::from_micros(250);

/// Shortest batch for which the reactor waits [`GATHER_TURNS`] turns. A turn that brings no request costs a
/// microsecond. In the meantime, clients whose requests the previous batch answered send their next ones.
const GATHER_FROM: Duration = Duration::from_micros(100);

/// Turns of the reactor before a batch is run. With 32 connections in a closed loop, batches held 20 requests after 0
/// turns, 25 after two, and 30 after four or eight.
const GATHER_TURNS: usize = 4;

/// Runs the batch here if it is short and the request of this ticket would otherwise wake an instance's thread for it.
/// All other batches are left to the instances' threads. `instances` are ordered by number.
pub(super) async fn run_if_short(
    batcher: &Batcher<Job, JobResult>,
    ticket: &mut Ticket<JobResult>,
    instances: &[Option<SharedRunner>],
) {
    if !ticket.wakes_worker() {
        return;
    }
    // The reactor first reads the requests that have already arrived in sockets, so they join the batch.
    tokio::task::yield_now().await;
    let limit = short();
    if batcher.expected().is_none_or(|run| run > limit) {
        return;
    }
    // Tasks that sockets woke during the first turn are at the end of the scheduler's queue, so they run in the second
    // turn.
    tokio::task::yield_now().await;
    let expected = match batcher.start_inline_if_alone(ticket, limit) {
        InlineStart::Started(run) => return run_one(run, instances),
        InlineStart::Declined => return,
        InlineStart::NotAlone { expected } => expected,
    };
    gather(expected).await;
    if let Some(run) = batcher.start_inline(ticket, limit) {
        run_one(run, instances);
    }
}

/// Runs the batch of the request that started the run, and leaves batches that are due afterwards to a task. (Not
/// `async`, because that would enlarge the future of each waiting request by the run.)
fn run_one(mut run: InlineRun<Job, JobResult>, instances: &[Option<SharedRunner>]) {
    let Some(Some(instance)) = instances.get(run.number()) else {
        return;
    };
    if let Some(work) = run.pull() {
        instance.lock().serve(work);
    }
    if let Some(run) = run.continue_or_end() {
        // The response to this request must not wait for those of other requests. The task ends when no short batch is
        // due.
        tokio::spawn(run_while_short(run, Arc::clone(instance)));
    }
}

/// Yields to the reactor so that more requests join the batch, if the batch is long enough for that to pay off.
async fn gather(run: Option<Duration>) {
    if run.is_some_and(|run| run >= GATHER_FROM) {
        for _ in 0..GATHER_TURNS {
            tokio::task::yield_now().await;
        }
    }
}

/// Returns the longest run that counts as short on this reactor.
fn short() -> Duration {
    match Handle::current().metrics().num_workers() {
        1 => SHORT_ON_ONE_THREAD,
        _ => SHORT_ON_SEVERAL_THREADS,
    }
}

/// Runs short batches until none is due, and lets the reactor poll its sockets in between.
async fn run_while_short(mut run: InlineRun<Job, JobResult>, instance: SharedRunner) {
    loop {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        gather(run.expected()).await;
        let Some(work) = run.pull() else { return };
        instance.lock().serve(work);
    }
}
