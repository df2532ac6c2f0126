//! A fake device whose tensors hold one number, with exactly libtorch's guarantees: streams run asynchronously in any
//! interleaving, and dropped memory is reused for the next allocation, with its old content, as soon as the guarantees
//! allow. Work that is queued in a wrong order computes a wrong number under some interleaving.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::{DeviceStreams, StreamRole};
use crate::libtorch::fault::Fault;

/// The index of a memory cell for one number.
type Slot = usize;

/// The pool that owns a slot; a freed slot is reused only within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    Upload,
    Compute,
    PageLocked,
}

#[derive(Debug)]
enum Op {
    Copy { from: Slot, to: Slot },
    Square { from: Slot, to: Slot },
    Fire(usize),
    Wait(usize),
    Free(Pool, Slot),
}

#[derive(Debug, Default)]
struct DeviceState {
    content: Vec<u64>,
    /// Slots free for reuse, by pool.
    free: [Vec<Slot>; 3],
    /// Number of slots allocated on the device, at most `capacity`.
    on_device: usize,
    capacity: usize,
    streams: [VecDeque<Op>; 2],
    fired: Vec<bool>,
    /// The stream to step at each operation of the program. Once the schedule is empty, streams step only when the
    /// program waits.
    schedule: VecDeque<StreamRole>,
    reclaimed: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FakeDevice(Rc<RefCell<DeviceState>>);

/// A tensor of one number.
#[derive(Debug)]
pub(super) struct Number {
    slot: Slot,
    pool: Pool,
    /// The stream whose queue must reach the drop of this number before the slot is reused. `None` if only one stream
    /// uses the number, so that its order suffices.
    last_user: Option<StreamRole>,
    device: FakeDevice,
}

impl FakeDevice {
    pub(super) fn new(capacity: usize, schedule: impl IntoIterator<Item = StreamRole>) -> Self {
        let state = DeviceState { capacity, schedule: schedule.into_iter().collect(), ..DeviceState::default() };
        Self(Rc::new(RefCell::new(state)))
    }

    /// Uploads a number as `Tensor::pinned` and `Tensor::upload` do; the page-locked number is dropped at once.
    pub(super) fn upload(&self, value: u64) -> Result<Number, Fault> {
        let pinned = self.take(Pool::PageLocked, Some(StreamRole::Upload))?;
        self.0.borrow_mut().content[pinned.slot] = value;
        let uploaded = self.take(Pool::Upload, Some(StreamRole::Compute))?;
        let (from, to) = (pinned.slot, uploaded.slot);
        self.queue(StreamRole::Upload, Op::Copy { from, to });
        Ok(uploaded)
    }

    /// Runs a model that squares its input.
    pub(super) fn square(&self, input: &Number) -> Result<Number, Fault> {
        let output = self.take(Pool::Compute, None)?;
        let (from, to) = (input.slot, output.slot);
        self.queue(StreamRole::Compute, Op::Square { from, to });
        Ok(output)
    }

    /// Runs a stream until it is empty or waits for the other stream.
    pub(super) fn run(&self, role: StreamRole) {
        while self.0.borrow_mut().step(role) {}
    }

    /// Returns the number of operations queued on a stream.
    pub(super) fn queued(&self, role: StreamRole) -> usize {
        self.0.borrow().streams[role as usize].len()
    }

    /// Returns the number of device slots in use.
    pub(super) fn used(&self) -> usize {
        let state = self.0.borrow();
        let [upload, compute, _] = &state.free;
        state.on_device - upload.len() - compute.len()
    }

    pub(super) fn reclaimed(&self) -> usize {
        self.0.borrow().reclaimed
    }

    fn take(&self, pool: Pool, last_user: Option<StreamRole>) -> Result<Number, Fault> {
        self.step_scheduled();
        let slot = self.0.borrow_mut().take(pool)?;
        Ok(Number { slot, pool, last_user, device: self.clone() })
    }

    fn queue(&self, role: StreamRole, op: Op) {
        self.0.borrow_mut().streams[role as usize].push_back(op);
        self.step_scheduled();
    }

    fn step_scheduled(&self) {
        let mut state = self.0.borrow_mut();
        if let Some(role) = state.schedule.pop_front() {
            state.step(role);
        }
    }
}

impl DeviceState {
    fn take(&mut self, pool: Pool) -> Result<Slot, Fault> {
        if let Some(slot) = self.free[pool as usize].pop() {
            return Ok(slot);
        }
        if pool != Pool::PageLocked {
            if self.on_device == self.capacity {
                return Err(Fault::OutOfMemory("no slot left".to_owned()));
            }
            self.on_device += 1;
        }
        self.content.push(0);
        Ok(self.content.len() - 1)
    }

    /// Runs one operation of a stream; returns false if it is blocked or empty.
    fn step(&mut self, role: StreamRole) -> bool {
        let blocked = match self.streams[role as usize].front() {
            None => true,
            Some(Op::Wait(event)) => !self.fired[*event],
            Some(Op::Copy { .. } | Op::Square { .. } | Op::Fire(_) | Op::Free(..)) => false,
        };
        if blocked {
            return false;
        }
        match self.streams[role as usize].pop_front() {
            None | Some(Op::Wait(_)) => {}
            Some(Op::Copy { from, to }) => self.content[to] = self.content[from],
            Some(Op::Square { from, to }) => self.content[to] = self.content[from].pow(2),
            Some(Op::Fire(event)) => self.fired[event] = true,
            Some(Op::Free(pool, slot)) => self.free[pool as usize].push(slot),
        }
        true
    }
}

impl Number {
    /// Reads the number from host memory.
    pub(super) fn read(&self) -> u64 {
        assert_eq!(self.pool, Pool::PageLocked);
        self.device.0.borrow().content[self.slot]
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let mut state = self.device.0.borrow_mut();
        match self.last_user {
            None => state.free[self.pool as usize].push(self.slot),
            Some(role) => state.streams[role as usize].push_back(Op::Free(self.pool, self.slot)),
        }
    }
}

impl DeviceStreams for FakeDevice {
    type Event = usize;
    type Output = Number;

    fn record(&self, role: StreamRole) -> Result<usize, Fault> {
        let event = self.0.borrow().fired.len();
        self.0.borrow_mut().fired.push(false);
        self.queue(role, Op::Fire(event));
        Ok(event)
    }

    fn wait(&self, role: StreamRole, event: &usize) -> Result<(), Fault> {
        self.queue(role, Op::Wait(*event));
        Ok(())
    }

    fn download(&self, output: Number) -> Result<Number, Fault> {
        let downloaded = self.take(Pool::PageLocked, Some(StreamRole::Compute))?;
        let (from, to) = (output.slot, downloaded.slot);
        self.queue(StreamRole::Compute, Op::Copy { from, to });
        Ok(downloaded)
    }

    fn synchronize(&self, event: &usize) -> Result<(), Fault> {
        let mut state = self.0.borrow_mut();
        while !state.fired[*event] {
            let moved = [state.step(StreamRole::Compute), state.step(StreamRole::Upload)];
            assert!(moved.contains(&true), "the streams wait for each other");
        }
        Ok(())
    }

    fn elapsed(&self, from: &usize, to: &usize) -> Result<Duration, Fault> {
        let state = self.0.borrow();
        assert!(state.fired[*from] && state.fired[*to]);
        Ok(Duration::from_micros((to - from) as u64))
    }

    fn reclaim(&self) -> Result<(), Fault> {
        let mut state = self.0.borrow_mut();
        while state.step(StreamRole::Compute) | state.step(StreamRole::Upload) {}
        state.on_device -= state.free[0].len() + state.free[1].len();
        state.free[0].clear();
        state.free[1].clear();
        state.reclaimed += 1;
        Ok(())
    }
}
