//! A device's side of the queue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use crate::batcher::{Shared, Stage, State, Waking};
use crate::{Item, Next, Work, clock};

/// Takes batches for one device, on that device's thread.
pub struct Puller<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
    /// The number that loans of its place bear; without one it lends nothing.
    number: Option<usize>,
}

/// When to form the batch that is to start on a device at `free_at`, if making it ready takes
/// `prepare`: as late as it can be without the device waiting, so that it holds all that came by then.
#[must_use]
pub fn form_at(now: Instant, free_at: Instant, prepare: Duration) -> Instant {
    let latest = free_at.checked_sub(prepare);
    latest.map_or(now, |latest| latest.max(now))
}

impl<I: Item, O: Send + 'static> Puller<I, O> {
    pub(crate) fn new(shared: Arc<Shared<I, O>>, number: Option<usize>) -> Self {
        let mut state = shared.state.lock();
        state.pullers += 1;
        let pullers = state.pullers;
        state.assembler.devices(pullers);
        drop(state);
        Self { shared, number }
    }

    /// Blocks the thread until a batch is due, and takes it. `None` when the queue is closed and empty.
    /// Call it when the device is free: the batch is formed at the moment it is taken.
    pub fn pull(&mut self) -> Option<Work<I, O>> {
        self.wait(self.shared.state.lock())
    }

    /// As [`Puller::pull`], for a device that is still busy until about `free_at` and needs a batch
    /// `prepare` before it can start it: blocks until then at least. Call it with one unanswered
    /// [`Work`] at most: one batch prepared ahead keeps the device busy, more would only be formed
    /// early and so be smaller.
    pub fn pull_ahead(&mut self, free_at: Instant, prepare: Duration) -> Option<Work<I, O>> {
        let now = clock::now();
        std::thread::sleep(form_at(now, free_at, prepare) - now);
        let work = self.wait(self.shared.state.lock())?;
        work.starts(free_at);
        Some(work)
    }

    fn wait(&self, mut state: MutexGuard<'_, State<I, O>>) -> Option<Work<I, O>> {
        loop {
            let now = clock::now();
            state.waking = Waking::No;
            let next = state.assembler.next(now);
            let lapsed = state.assembler.expire(now);
            let pause = match next {
                Next::Run(batch) => {
                    let work = self.shared.leave(state, batch, now);
                    self.shared.lapse(lapsed);
                    return Some(work);
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
        state.resting.extend(self.number);
        match until {
            Some(at) => {
                state.alarm = until;
                self.shared.due.wait_until(state, at);
                state.alarm = state.alarm.filter(|alarm| *alarm != at);
            }
            None => self.shared.due.wait(state),
        }
        if let Some(number) = self.number {
            self.recover(state, number);
        }
        state.asleep -= 1;
    }

    /// Sleeps on while its place is lent. What it was woken for is then another's, now or when the loan
    /// ends.
    fn recover(&self, state: &mut MutexGuard<'_, State<I, O>>, number: usize) {
        loop {
            if let Some(at) = state.resting.iter().position(|resting| *resting == number) {
                state.resting.swap_remove(at);
                return;
            }
            state.waking = Waking::No;
            if state.wants_waking(clock::now()) {
                self.shared.due.notify_one();
            }
            self.shared.due.wait(state);
        }
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
