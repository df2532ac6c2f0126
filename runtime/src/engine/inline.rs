//! Short batches run on the reactor's thread that brought the request.
//!
//! An instance has a thread of its own, so that a long run holds up no socket. For a run of some
//! microseconds the way there and back costs more than the run: two threads woken, four context
//! switches. So while that thread sleeps, who queued a request takes its place and runs the batch itself.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use weir_batcher::{Batcher, Loan, Ticket};

use super::Outcome;
use super::runner::Runner;
use crate::job::Job;

/// An instance that any thread may run, one at a time.
pub(super) type Shared = Arc<Mutex<Runner>>;

/// Where the reactor is one thread, batches that take at most this run on it. A hand-over to another thread and
/// back costs 40 to 90 us, and for so short a time the kernel would not interrupt that other thread
/// either: its time slices are about 3 ms.
const BRIEF_ALONE: Duration = Duration::from_millis(2);

/// Where the reactor has several threads. Of these one at a time looks at the sockets, and it may be the one
/// that runs the batch: so the pause must be as short as what decoding a request of 250 kB takes.
const BRIEF_AMONG_OTHERS: Duration = Duration::from_micros(250);

/// For a batch that takes at least this, the reactor takes `MORE_TURNS`: a turn costs a microsecond where it
/// brings nothing, and clients whom the batch before has answered are asking again meanwhile.
const WORTH_MORE_TURNS: Duration = Duration::from_micros(100);

/// Of 32 connections in a closed loop, batches held 20 after none, 25 after two, 30 after four and after eight.
const MORE_TURNS: usize = 4;

/// Sees to what the ticket would wake a device for: runs it here, if that is short, and leaves it to
/// the device's thread otherwise. `instances` by their number.
pub(super) async fn run_if_brief(
    batcher: &Batcher<Job, Outcome>,
    ticket: &mut Ticket<Outcome>,
    instances: &[Option<Shared>],
) {
    if !ticket.will_wake() {
        return;
    }
    // Requests that lie in sockets by now join the batch: the reactor reads them first.
    tokio::task::yield_now().await;
    let brief = brief();
    if batcher.expected().is_none_or(|run| run > brief) {
        return;
    }
    // It takes up last what it found last: in the second turn those run whom their sockets woke.
    tokio::task::yield_now().await;
    // Who asks alone does not wait for others.
    if batcher.queued() > 1 {
        gather(batcher.expected()).await;
    }
    let Some(mut loan) = batcher.take_over(ticket, brief) else {
        return;
    };
    let Some(Some(instance)) = instances.get(loan.number()) else {
        return;
    };
    if let Some(work) = loan.pull() {
        instance.lock().serve(work);
    }
    if loan.expected().is_some() {
        // The answer of this request must not wait for those of others. The task ends with the queue.
        tokio::spawn(run_while_brief(loan, Arc::clone(instance)));
    }
}

/// Lets the reactor bring more to the batch that is due, where it gains by that.
async fn gather(run: Option<Duration>) {
    if run.is_some_and(|run| run >= WORTH_MORE_TURNS) {
        for _ in 0..MORE_TURNS {
            tokio::task::yield_now().await;
        }
    }
}

/// What is short here.
fn brief() -> Duration {
    match Handle::current().metrics().num_workers() {
        1 => BRIEF_ALONE,
        _ => BRIEF_AMONG_OTHERS,
    }
}

/// Goes on until nothing short is due, and lets the reactor see to its sockets in between.
async fn run_while_brief(mut loan: Loan<Job, Outcome>, instance: Shared) {
    loop {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        gather(loan.expected()).await;
        let Some(work) = loan.pull() else { return };
        instance.lock().serve(work);
    }
}
