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

/// How many turns of the reactor a batch waits for more at most: under load a turn brings a few requests, and
/// after so many it would bring those whose answers left while it was gathered.
const TURNS: usize = 16;

/// Sees to what the ticket would wake a device for: runs it here, if that is short, and leaves it to
/// the device's thread otherwise. `instances` by their number; `most` rows make a full batch.
pub(super) async fn run_if_brief(
    batcher: &Batcher<Job, Outcome>,
    ticket: &mut Ticket<Outcome>,
    instances: &[Option<Shared>],
    most: usize,
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
    let_come(|| batcher.queued(), most).await;
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
        tokio::spawn(run_while_brief(loan, Arc::clone(instance), most));
    }
}

/// Lets the reactor go on as long as each turn brings more, up to a full batch: what it reads must be read
/// anyway, and larger batches are cheaper. At least one turn, because it takes up last what it found last: in
/// this one those run whom their sockets woke in the turn before.
async fn let_come(queued: impl Fn() -> usize, most: usize) {
    let mut before = queued();
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
        let now = queued();
        if now <= before || now >= most {
            return;
        }
        before = now;
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
async fn run_while_brief(mut loan: Loan<Job, Outcome>, instance: Shared, most: usize) {
    loop {
        tokio::task::yield_now().await;
        let_come(|| loan.queued(), most).await;
        let Some(work) = loan.pull() else { return };
        instance.lock().serve(work);
    }
}
