//! Copies the inputs of queued items before their batch is formed.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use crate::shared::State;
use crate::{AsyncDevice, Id, Item, Staged};

/// Receiver of the items that will probably be in a device's next batch, so that their inputs are ready when the batch
/// is formed. The items stay queued: each of them may still be cancelled, expire, or be overtaken, and a batch may
/// contain items that were not staged.
pub trait Stager<I> {
    /// Remembers what staging the item needs. Called under the queue's lock. A batch of the item has at most the weight
    /// `most`.
    fn note(&mut self, id: Id, item: &I, most: usize);

    /// Copies the inputs of the item that was noted last. [`ControlFlow::Break`] stages nothing more before the next
    /// batch.
    fn copy(&mut self) -> ControlFlow<()>;
}

/// Stager for a device whose inputs cannot be staged.
impl<I> Stager<I> for () {
    fn note(&mut self, _: Id, _: &I, _: usize) {}

    fn copy(&mut self) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// The items that are staged for one batch.
pub(crate) struct Staging<'a, I> {
    stager: &'a mut dyn Stager<I>,
    staged: Staged,
    flow: ControlFlow<()>,
}

impl<'a, I> Staging<'a, I> {
    pub(crate) fn new(stager: &'a mut dyn Stager<I>) -> Self {
        Self { stager, staged: Staged::default(), flow: ControlFlow::Continue(()) }
    }

    /// Returns the device, with a time for a row only if rows are staged. With several workers, nothing is staged,
    /// because another one may take the items.
    pub(crate) fn device<O>(&self, device: AsyncDevice, state: &State<I, O>) -> AsyncDevice
    where
        I: Item,
        O: Send + 'static,
    {
        let ends = self.flow.is_break() || state.workers > 1;
        if ends { AsyncDevice { row: Duration::ZERO, ..device } } else { device }
    }

    /// Stages one item, for which the lock is released. Returns false if there is nothing to stage.
    pub(crate) fn step<O>(&mut self, state: &mut MutexGuard<'_, State<I, O>>) -> bool
    where
        I: Item,
        O: Send + 'static,
    {
        if self.flow.is_break() || state.workers > 1 {
            return false;
        }
        let Some(next) = state.assembler.stage(&mut self.staged) else {
            return false;
        };
        self.stager.note(next.id, &next.item.item, next.most);
        self.flow = MutexGuard::unlocked(state, || self.stager.copy());
        true
    }

    /// Returns the items that were staged.
    pub(crate) fn staged(&self) -> &Staged {
        &self.staged
    }

    /// Returns the time at which to look for more items to stage, if the batch is formed at `until`. Each wait is half
    /// of the remaining time. So few items are left to copy at the end, and the thread wakes up only a few times for
    /// each batch.
    pub(crate) fn next_look(&self, now: Instant, until: Instant) -> Instant {
        let left = until.saturating_duration_since(now);
        if self.flow.is_break() || left < SHORT { until } else { now + left / 2 }
    }
}

/// Time in which looking for more items to stage is not worth waking up.
const SHORT: Duration = Duration::from_micros(100);
