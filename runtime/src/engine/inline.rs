//! Short batches run on the reactor's thread that brought the request.
//!
//! An instance has a thread of its own, so that a long run holds up no socket. For a run of some
//! microseconds the way there and back costs more than the run: two threads woken, four context
//! switches. So while that thread sleeps, the task that queued a request runs the batch itself.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use weir_batcher::{Batcher, InlineRun, InlineStart, Ticket};

use super::JobResult;
use super::runner::Runner;
use crate::job::Job;

/// An instance that any thread may run, one thread at a time.
pub(super) type SharedRunner = Arc<Mutex<Runner>>;

/// Longest batch that runs on a reactor of one thread. A hand-over to another thread and
/// back costs 40 to 90 us, and for so short a time the kernel would not interrupt that other thread
/// either: its time slices are about 3 ms.
const SHORT_ON_ONE_THREAD: Duration = Duration::from_millis(2);

/// Longest batch that runs on a reactor of several threads. Of these one at a time polls the sockets, and it may be
/// the one that runs the batch: so the pause must be as short as what decoding a request of 250 kB takes.
const SHORT_ON_SEVERAL_THREADS: Duration = Duration::from_micros(250);

/// Shortest batch for which the reactor takes `GATHER_TURNS`: a turn costs a microsecond where it brings nothing,
/// and clients that the batch before has answered send their next requests meanwhile.
const GATHER_FROM: Duration = Duration::from_micros(100);

/// Of 32 connections in a closed loop, batches held 20 after none, 25 after two, 30 after four and after eight.
const GATHER_TURNS: usize = 4;

/// Runs the batch for which the ticket would wake an instance's thread, if it is short; leaves it to that
/// thread otherwise. `instances` by their number.
pub(super) async fn run_if_short(
    batcher: &Batcher<Job, JobResult>,
    ticket: &mut Ticket<JobResult>,
    instances: &[Option<SharedRunner>],
) {
    if !ticket.wakes_worker() {
        return;
    }
    // Requests that lie in sockets by now join the batch: the reactor reads them first.
    tokio::task::yield_now().await;
    let limit = short();
    if batcher.expected().is_none_or(|run| run > limit) {
        return;
    }
    // The scheduler runs last what it found last: in the second turn it runs the tasks that sockets woke.
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

/// Runs the batch of the request that started the run, and leaves what is due by then to a task. (Not
/// `async`: what a request holds while it waits would be larger by the run.)
fn run_one(mut run: InlineRun<Job, JobResult>, instances: &[Option<SharedRunner>]) {
    let Some(Some(instance)) = instances.get(run.number()) else {
        return;
    };
    if let Some(work) = run.pull() {
        instance.lock().serve(work);
    }
    if let Some(run) = run.continue_or_end() {
        // The answer of this request must not wait for those of others. The task ends with the queue.
        tokio::spawn(run_while_short(run, Arc::clone(instance)));
    }
}

/// Lets the reactor bring more to the batch that is due, where it gains by that.
async fn gather(run: Option<Duration>) {
    if run.is_some_and(|run| run >= GATHER_FROM) {
        for _ in 0..GATHER_TURNS {
            tokio::task::yield_now().await;
        }
    }
}

/// Longest run that counts as short on this reactor.
fn short() -> Duration {
    match Handle::current().metrics().num_workers() {
        1 => SHORT_ON_ONE_THREAD,
        _ => SHORT_ON_SEVERAL_THREADS,
    }
}

/// Goes on until nothing short is due, and lets the reactor look at its sockets in between.
async fn run_while_short(mut run: InlineRun<Job, JobResult>, instance: SharedRunner) {
    loop {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        gather(run.expected()).await;
        let Some(work) = run.pull() else { return };
        instance.lock().serve(work);
    }
}
