//! Decides if a batch for an asynchronous device waits for the items of returning callers.

use std::time::{Duration, Instant};

use super::choice::Ready;
use super::entry::later;
use super::groups::Group;
use super::{Assembler, Running, Stage};
use crate::{Curve, Item};

/// Gain that a wait must promise, as a multiple of the wait. Times and turnarounds are estimates, and items that arrive
/// independently of the answers, which look like returning ones, gain nothing by a wait that just breaks even.
const GAIN: f64 = 1.5;

/// State of a device that works asynchronously, for the start of its next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncDevice {
    /// Time at which the device will probably be free.
    pub free_at: Instant,
    /// Time in which the host prepares a batch's inputs. It is hidden if the batch is started while the device is busy.
    pub inputs: Duration,
}

/// A wait for more items.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Weight of the items that are queued.
    queued: usize,
    /// Weight of the items that arrive during the wait.
    more: usize,
    /// Time by which the wait postpones the batch on the device.
    delay: Duration,
    /// Time that the wait takes in addition, because it ends when the device is idle.
    exposed: Duration,
}

impl Wait {
    /// Returns true if the items are answered sooner on average when they run together after the wait than when the
    /// queued ones run first and the others afterwards. `None` if a time is not known.
    fn pays(&self, curve: &Curve) -> Option<bool> {
        let all = self.queued + self.more;
        let together = self.delay.mul_f64(GAIN) + self.exposed + curve.time(all)?;
        let share = self.more as f64 / all.max(1) as f64;
        let apart = curve.time(self.queued)? + curve.time(self.more)?.mul_f64(share);
        Some(together < apart)
    }
}

impl<T: Item> Assembler<T> {
    /// Returns when the next batch is ready for an asynchronous device, and its group.
    pub(super) fn ready_ahead(&self, device: AsyncDevice, now: Instant) -> Ready {
        if self.stage == Stage::Draining {
            return self.ready(now);
        }
        let mut soonest = self.timeouts.first().map(|(at, _)| *at);
        for index in self.groups.in_order() {
            let group = self.groups.get(index);
            let may_run = self.may_run(group, now);
            let until = if may_run { self.merge_until(index, device, now) } else { self.overdue_at(group) };
            if may_run && until.is_none() {
                return Ready::Batch(index);
            }
            soonest = soonest.into_iter().chain(until).min();
        }
        soonest.map_or(Ready::Never, Ready::At)
    }

    /// Returns the time until which the group's next batch waits for returning items; `None` if waiting does not pay.
    fn merge_until(&self, index: usize, device: AsyncDevice, now: Instant) -> Option<Instant> {
        let group = self.groups.get(index);
        let start = device.free_at.max(now);
        let exposed = if device.free_at > now { device.inputs } else { Duration::ZERO };
        let room = self.best(group).saturating_sub(group.weight);
        let running = self.running.iter().filter(|running| running.group == index && !is_overdue(group, running, now));
        let mut returns: Vec<_> =
            running.filter_map(|batch| group.returns.of_running(batch.weight, batch.until.max(now))).collect();
        returns.extend(group.returns.outstanding(now));
        returns.sort_unstable_by_key(|expected| expected.at);
        let (mut more, mut until) = (0, None::<Instant>);
        for expected in returns {
            more = room.min(more + expected.weight);
            let delay = expected.at.saturating_duration_since(start);
            let wait = Wait { queued: group.weight, more, delay, exposed };
            if more > 0 && wait.pays(&group.curve) == Some(true) {
                until = Some(expected.until.max(until.unwrap_or(now)));
            }
        }
        until.filter(|until| *until > now)
    }

    /// Returns the best weight of a batch of the group, if enough items are queued.
    pub(super) fn best(&self, group: &Group<T::Group>) -> usize {
        let largest = self.policy.preferred.last().copied().unwrap_or(usize::MAX);
        group.curve.choose(self.most(group)).min(largest)
    }
}

/// Returns true if a batch runs for longer than twice its expected time: it may never end, so nothing waits for it.
fn is_overdue<G>(group: &Group<G>, running: &Running, now: Instant) -> bool {
    let expected = group.curve.time(running.weight).unwrap_or_default();
    now > later(running.until, expected)
}
