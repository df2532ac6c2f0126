//! Takes batches from the queue for a device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use crate::shared::{Shared, State};
use crate::stager::Staging;
use crate::{AsyncDevice, Item, Next, Stager, Work, clock};

/// Takes batches for one device, on the thread of that device.
pub struct Worker<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
    /// Number of the device, which no other worker of the queue has or had.
    device: usize,
    /// Number under which inline runs use the device; `None` if they may not.
    number: Option<usize>,
}

/// Returns the time at which to form the batch that is to start on a device at `free_at`, if preparing it takes
/// `prepare`. This is as late as possible without making the device wait, so that the batch contains everything that
/// arrived by then.
#[must_use]
pub fn form_at(now: Instant, free_at: Instant, prepare: Duration) -> Instant {
    let latest = free_at.checked_sub(prepare);
    latest.map_or(now, |latest| latest.max(now))
}

impl<I: Item, O: Send + 'static> Worker<I, O> {
    pub(crate) fn new(shared: Arc<Shared<I, O>>, number: Option<usize>) -> Self {
        let mut state = shared.lock();
        state.workers += 1;
        state.created += 1;
        let (workers, device) = (state.workers, state.created);
        state.assembler.devices(workers);
        drop(state);
        Self { shared, device, number }
    }

    /// Blocks the thread until a batch is due, and takes it. Returns `None` if the queue is closed and empty. Call this
    /// when the device is free, because the batch is formed at the moment it is taken.
    pub fn pull(&mut self) -> Option<Work<I, O>> {
        self.wait(DeviceState::Free, &mut Staging::new(&mut ()))
    }

    /// Takes a batch like [`Worker::pull`], for a device that may be busy. The batch must be formed `prepare` before
    /// the device is free. Unless the batch is full, this blocks at least until then, and longer if waiting for
    /// returning callers pays off; see [`crate::Assembler::next_ahead`]. Meanwhile `stager` gets the items that will
    /// probably be in the batch. Once all batches of this worker are answered, the device counts as free, however long
    /// they were expected to take. Call this with at most one unanswered [`Work`]: one batch prepared ahead keeps the
    /// device busy, and more would only be formed too early and so be smaller.
    pub fn pull_ahead(
        &mut self,
        device: AsyncDevice,
        prepare: Duration,
        stager: &mut dyn Stager<I>,
    ) -> Option<Work<I, O>> {
        let mut staging = Staging::new(stager);
        self.stage(device, prepare, &mut staging);
        self.wait(DeviceState::Asynchronous(device), &mut staging)
    }

    /// Stages items until the batch is to be formed: `prepare` before the device is free, or at once if the batch is
    /// full.
    fn stage(&self, device: AsyncDevice, prepare: Duration, staging: &mut Staging<'_, I>) {
        let mut state = self.shared.lock();
        loop {
            let now = clock::now();
            let until = form_at(now, self.as_it_is(device, &state, now).free_at, prepare);
            if state.assembler.is_full() || now >= until {
                return;
            }
            if !staging.step(&mut state) {
                self.shared.ended.wait_until(&mut state, staging.next_look(now, until));
            }
        }
    }

    /// Returns the device with the time at which it is free: now if its batches ended sooner than expected.
    fn as_it_is(&self, device: AsyncDevice, state: &State<I, O>, now: Instant) -> AsyncDevice {
        let is_busy = state.assembler.is_busy(self.device);
        AsyncDevice { free_at: if is_busy { device.free_at } else { device.free_at.min(now) }, ..device }
    }

    fn wait(&self, device: DeviceState, staging: &mut Staging<'_, I>) -> Option<Work<I, O>> {
        let mut state = self.shared.lock();
        loop {
            let now = clock::now();
            state.wakeup_pending = false;
            let (next, start) = match device {
                DeviceState::Free => (state.assembler.next(now), now),
                DeviceState::Asynchronous(device) => {
                    let device = self.as_it_is(staging.device(device, &state), &state, now);
                    (state.assembler.next_ahead(device, staging.staged(), now), device.free_at.max(now))
                }
            };
            let expired = state.assembler.expire(now);
            let pause = match next {
                Next::Run(batch) => {
                    state.assembler.starts(&batch, self.device, start);
                    let work = Work::hand_out(&self.shared, state, batch, now);
                    self.shared.send_expired(expired);
                    return Some(work);
                }
                Next::Idle if self.shared.is_closed() => Pause::End,
                Next::Idle => Pause::Sleep,
                Next::WaitUntil(at) => Pause::SleepUntil(at),
            };
            if !expired.is_empty() {
                // Items may be queued while the lock is released, so the queue is checked again before sleeping.
                MutexGuard::unlocked(&mut state, || self.shared.send_expired(expired));
                continue;
            }
            match pause {
                Pause::End => return None,
                Pause::Sleep => self.sleep(&mut state, None),
                // The lock was released while an item was staged, so the queue is checked again.
                Pause::SleepUntil(_) if matches!(device, DeviceState::Asynchronous(_)) && staging.step(&mut state) => {}
                Pause::SleepUntil(at) => self.sleep(&mut state, Some(at)),
            }
        }
    }

    /// Sleeps until woken. Only one worker also wakes at `until`, because others would find nothing to do.
    fn sleep(&self, state: &mut MutexGuard<'_, State<I, O>>, until: Option<Instant>) {
        let until = until.filter(|at| state.wakes_at.is_none_or(|wakes_at| *at < wakes_at));
        state.sleeping += 1;
        state.idle.extend(self.number);
        match until {
            Some(at) => {
                state.wakes_at = until;
                self.shared.due.wait_until(state, at);
                state.wakes_at = state.wakes_at.filter(|wakes_at| *wakes_at != at);
            }
            None => self.shared.due.wait(state),
        }
        if let Some(number) = self.number {
            self.reclaim(state, number);
        }
        state.sleeping -= 1;
    }

    /// Keeps sleeping while an inline run uses the device. A batch for which this worker was woken goes to another
    /// worker, or is taken when the inline run ends.
    fn reclaim(&self, state: &mut MutexGuard<'_, State<I, O>>, number: usize) {
        loop {
            if let Some(at) = state.idle.iter().position(|idle| *idle == number) {
                state.idle.swap_remove(at);
                return;
            }
            state.wakeup_pending = false;
            if state.needs_wakeup(clock::now()) {
                self.shared.due.notify_one();
            }
            self.shared.due.wait(state);
        }
    }
}

/// The device of a worker that takes a batch.
#[derive(Clone, Copy)]
enum DeviceState {
    /// The device runs nothing.
    Free,
    /// The device works asynchronously, and may be busy.
    Asynchronous(AsyncDevice),
}

/// Next step of a worker without a batch.
enum Pause {
    SleepUntil(Instant),
    Sleep,
    End,
}

impl<I: Item, O: Send + 'static> Drop for Worker<I, O> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.workers -= 1;
        let workers = state.workers;
        state.assembler.devices(workers);
        self.shared.fail_unserved(state);
    }
}
