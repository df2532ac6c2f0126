//! A device's side of the queue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use crate::batcher::{Queued, Shared, Stage, State, Waking};
use crate::{Batch, Formed, Item, Next, Work, clock};

/// Takes batches for one device, on that device's thread.
pub struct Puller<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
}

/// When to form the batch that is to start on a device at `free_at`, if making it ready takes
/// `prepare`: as late as it can be without the device waiting, so that it holds all that came by then.
#[must_use]
pub fn form_at(now: Instant, free_at: Instant, prepare: Duration) -> Instant {
    let latest = free_at.checked_sub(prepare);
    latest.map_or(now, |latest| latest.max(now))
}

impl<I: Item, O: Send + 'static> Puller<I, O> {
    pub(crate) fn new(shared: Arc<Shared<I, O>>) -> Self {
        let mut state = shared.state.lock();
        state.pullers += 1;
        let pullers = state.pullers;
        state.assembler.devices(pullers);
        drop(state);
        Self { shared }
    }

    /// Blocks the thread until a batch is due, and takes it. `None` when the queue is closed and empty.
    /// Call it when the device is free: the batch is formed at the moment it is taken.
    pub fn pull(&mut self) -> Option<Work<I, O>> {
        let batch = self.wait(self.shared.state.lock())?;
        Some(Work::new(Arc::clone(&self.shared), batch))
    }

    /// As [`Puller::pull`], for a device that is still busy until about `free_at` and needs a batch
    /// `prepare` before it can start it: blocks until then at least. Call it with one unanswered
    /// [`Work`] at most: one batch prepared ahead keeps the device busy, more would only be formed
    /// early and so be smaller.
    pub fn pull_ahead(&mut self, free_at: Instant, prepare: Duration) -> Option<Work<I, O>> {
        let now = clock::now();
        std::thread::sleep(form_at(now, free_at, prepare) - now);
        let batch = self.wait(self.shared.state.lock())?;
        let start = free_at.max(batch.formed);
        let mut state = self.shared.state.lock();
        state.assembler.starts(batch.number, start, batch.expected);
        drop(state);
        Some(Work::new(Arc::clone(&self.shared), batch))
    }

    fn wait(&self, mut state: MutexGuard<'_, State<I, O>>) -> Option<Batch<Queued<I, O>>> {
        loop {
            let now = clock::now();
            state.waking = Waking::No;
            let next = state.assembler.next(now);
            let lapsed = state.assembler.expire(now);
            let pause = match next {
                Next::Run(batch) => {
                    self.leave(state, &batch, now);
                    self.shared.lapse(lapsed);
                    return Some(batch);
                }
                Next::Idle if state.stage == Stage::Closed => Pause::Over,
                Next::Idle => Pause::Long,
                Next::WaitUntil(at) => Pause::Until(at),
            };
            if !lapsed.is_empty() {
                // What comes while the lock is open must be looked at before sleeping.
                MutexGuard::unlocked(&mut state, || self.shared.lapse(lapsed));
                continue;
            }
            match pause {
                Pause::Over => return None,
                Pause::Long => self.sleep(&mut state, None),
                Pause::Until(at) => self.sleep(&mut state, Some(at)),
            }
        }
    }

    /// Of the pullers that wait, one wakes at the moment in question; more would find nothing.
    fn sleep(&self, state: &mut MutexGuard<'_, State<I, O>>, until: Option<Instant>) {
        let until = until.filter(|at| state.alarm.is_none_or(|alarm| *at < alarm));
        state.asleep += 1;
        match until {
            Some(at) => {
                state.alarm = until;
                self.shared.due.wait_until(state, at);
                state.alarm = state.alarm.filter(|alarm| *alarm != at);
            }
            None => self.shared.due.wait(state),
        }
        state.asleep -= 1;
    }

    /// Goes to work; what stays behind is another puller's.
    fn leave(
        &self,
        mut state: MutexGuard<'_, State<I, O>>,
        batch: &Batch<Queued<I, O>>,
        now: Instant,
    ) {
        state.held += batch.members.len();
        let queued = state.assembler.queued();
        let wake = state.wants_waking(now);
        drop(state);
        if wake {
            self.shared.due.notify_one();
        }
        let first = batch.members.iter().map(|member| member.arrived).min();
        self.shared.observer.formed(&Formed {
            weight: batch.weight,
            items: batch.members.len(),
            oldest_wait: now.saturating_duration_since(first.unwrap_or(now)),
            queued,
        });
    }
}

/// What a puller without a batch does.
enum Pause {
    Until(Instant),
    Long,
    Over,
}

impl<I: Item, O: Send + 'static> Drop for Puller<I, O> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.pullers -= 1;
        let pullers = state.pullers;
        state.assembler.devices(pullers);
        self.shared.abandon_if_alone(state);
    }
}
