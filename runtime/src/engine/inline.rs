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
    if !batcher.is_brief(brief) {
        return;
    }
    // It takes up last what it found last: in the second turn those run whom their sockets woke.
    tokio::task::yield_now().await;
    let Some(mut loan) = batcher.take_over(ticket, brief) else {
        return;
    };
    let Some(Some(instance)) = instances.get(loan.number()) else {
        return;
    };
    if let Some(work) = loan.pull() {
        instance.lock().serve(work);
    }
    if loan.has_more() {
        // The answer of this request must not wait for those of others. The task ends with the queue.
        tokio::spawn(run_while_brief(loan, Arc::clone(instance)));
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
        let Some(work) = loan.pull() else { return };
        instance.lock().serve(work);
    }
}
