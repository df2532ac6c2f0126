//! Decides if a batch for an asynchronous device waits: for items that are still to be staged, or for the next items of
//! callers that are being answered.

use std::time::{Duration, Instant};

use super::choice::Ready;
use super::entry::later;
use super::groups::Group;
use super::halves::Circle;
use super::returns::Return;
use super::staging::Staged;
use super::{Assembler, AsyncDevice, Running, Stage};
use crate::{Curve, Item};

/// Gain that a wait must promise, as a multiple of the wait. Times and turnarounds are estimates, and items that arrive
/// independently of the answers, which look like returning ones, gain nothing by a wait that just breaks even.
const GAIN: f64 = 1.5;

/// A wait for more items.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Weight of the items that are queued.
    queued: usize,
    /// Weight of the items that arrive during the wait.
    more: usize,
    /// Time by which the wait postpones the batch on the device.
    delay: Duration,
    /// Time in which the host prepares the batch's inputs while the device is idle; without the wait, the device would
    /// be busy meanwhile.
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

/// The next step of an asynchronous device with a group's items.
enum Step {
    /// A batch of at most this weight runs now.
    Run(usize),
    /// More items are staged until this time. No other group runs meanwhile, because its batch would discard them.
    Stage(Instant),
    /// More items arrive until this time.
    Wait(Instant),
}

impl<T: Item> Assembler<T> {
    /// Returns when the next batch is ready for an asynchronous device, and its group.
    pub(super) fn ready_ahead(&self, device: AsyncDevice, staged: &Staged, now: Instant) -> Ready {
        if self.stage == Stage::Draining {
            return self.ready(now);
        }
        let mut soonest = self.timeouts.first().map(|(at, _)| *at);
        for index in self.groups.in_order() {
            let group = self.groups.get(index);
            let step = self.may_run(group, now).then(|| self.step(index, (device, staged), now));
            let until = match step {
                Some(Step::Run(most)) => return Ready::Batch { group: index, most },
                Some(Step::Stage(until)) => return Ready::At(soonest.map_or(until, |at| at.min(until))),
                Some(Step::Wait(until)) => Some(until),
                None => self.overdue_at(group),
            };
            soonest = soonest.into_iter().chain(until).min();
        }
        soonest.map_or(Ready::Never, Ready::At)
    }

    /// Decides if a batch of the items that are ready runs now.
    fn step(&self, index: usize, (device, staged): (AsyncDevice, &Staged), now: Instant) -> Step {
        let group = self.groups.get(index);
        let next = self.unstaged(index, staged).filter(|_| !device.row.is_zero());
        let ready = next.map_or(group.weight, |(_, first)| staged.of(index).clamp(first.weight, group.weight));
        let least = self.circle(index).least(device, &group.curve);
        let waits = if ready < group.weight.min(self.best(group)) {
            staged_at(device, least.min(group.weight).saturating_sub(ready), now).map(Step::Stage)
        } else if ready < least || device.row.is_zero() {
            self.merge_until(index, device, now).map(Step::Wait)
        } else {
            None
        };
        waits.unwrap_or(Step::Run(ready))
    }

    /// Returns the items of the group's clients.
    pub(super) fn circle(&self, index: usize) -> Circle {
        let group = self.groups.get(index);
        let running = self.running.iter().filter(|running| running.group == index);
        let running: usize = running.map(|running| running.weight).sum();
        let all = group.weight + running + group.returns.missing();
        Circle { all, best: self.best(group), turnaround: group.returns.turnaround().unwrap_or_default() }
    }

    /// Returns the time until which the group's next batch waits for returning items; `None` if waiting does not pay. If
    /// the items come from a fixed number of clients, which one batch would answer at a higher rate, the wait pays in
    /// later batches, whatever it costs this one.
    fn merge_until(&self, index: usize, device: AsyncDevice, now: Instant) -> Option<Instant> {
        let group = self.groups.get(index);
        let lasts = group.circulation.is_steady() && self.circle(index).is_faster_whole(device, &group.curve);
        let start = device.free_at.max(now);
        let exposed = if device.free_at > now { device.inputs } else { Duration::ZERO };
        let room = self.best(group).saturating_sub(group.weight);
        let (mut more, mut until) = (0, None::<Instant>);
        for expected in self.returns(index, now) {
            more = room.min(more + expected.weight);
            let delay = expected.at.saturating_duration_since(start);
            let wait = Wait { queued: group.weight, more, delay, exposed };
            if more > 0 && (lasts || wait.pays(&group.curve) == Some(true)) {
                until = Some(expected.until.max(until.unwrap_or(now)));
            }
        }
        until.filter(|until| *until > now)
    }

    /// Returns the items of the group that are expected to return, in the order of their arrival.
    fn returns(&self, index: usize, now: Instant) -> Vec<Return> {
        let group = self.groups.get(index);
        let running = self.running.iter().filter(|running| running.group == index && !is_overdue(group, running, now));
        let mut returns: Vec<_> =
            running.filter_map(|batch| group.returns.of_running(batch.weight, batch.until.max(now))).collect();
        returns.extend(group.returns.outstanding(now));
        returns.sort_unstable_by_key(|expected| expected.at);
        returns
    }

    /// Returns the best weight of a batch of the group, if enough items are queued.
    pub(super) fn best(&self, group: &Group<T::Group>) -> usize {
        let largest = self.policy.preferred.last().copied().unwrap_or(usize::MAX);
        group.curve.choose(self.most(group)).min(largest)
    }
}

/// Returns the time until which more items are staged: long enough for the `missing` rows, which have to be staged. If
/// none is missing, another row is staged only while the device is busy. Returns `None` if the batch runs now.
fn staged_at(device: AsyncDevice, missing: usize, now: Instant) -> Option<Instant> {
    let next = later(now, device.copies(missing.max(1)));
    let latest = device.free_at.checked_sub(device.inputs).unwrap_or(now);
    let until = if missing > 0 { next } else { next.min(latest) };
    (until > now).then_some(until)
}

/// Returns true if a batch runs for longer than twice its expected time: it may never end, so nothing waits for it.
fn is_overdue<G>(group: &Group<G>, running: &Running, now: Instant) -> bool {
    let expected = group.curve.time(running.weight).unwrap_or_default();
    now > later(running.until, expected)
}
