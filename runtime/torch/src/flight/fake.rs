//! A device of numbers that keeps libtorch's contract and no more: lanes work by themselves, in any
//! interleaving; memory that is dropped goes to whoever asks next, its old content still in it, as soon as
//! the contract allows. What is queued in a wrong order gives a wrong number under some interleaving.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::{Lane, Lanes};
use crate::fault::Fault;

/// A place for one number.
type Slot = usize;

/// Whose memory a slot is: it is handed out again to the same only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
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
    Free(Home, Slot),
}

#[derive(Debug, Default)]
struct World {
    content: Vec<u64>,
    /// What may be handed out again, by home.
    free: [Vec<Slot>; 3],
    /// Slots of the device that exist, and how many there may be.
    on_device: usize,
    capacity: usize,
    lanes: [VecDeque<Op>; 2],
    fired: Vec<bool>,
    /// Which lane makes a step when this program does something; afterwards only when it waits.
    luck: VecDeque<Lane>,
    reclaimed: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Fake(Rc<RefCell<World>>);

/// A tensor of one number.
#[derive(Debug)]
pub(super) struct Number {
    slot: Slot,
    home: Home,
    /// The lane that must have come this far before the slot is used again once this is dropped; `None`
    /// where only one lane uses it, and so in order.
    last_user: Option<Lane>,
    fake: Fake,
}

impl Fake {
    pub(super) fn new(capacity: usize, luck: impl IntoIterator<Item = Lane>) -> Self {
        let world = World {
            capacity,
            luck: luck.into_iter().collect(),
            ..World::default()
        };
        Self(Rc::new(RefCell::new(world)))
    }

    /// As `Tensor::pinned` and `Tensor::upload`; the page-locked number is dropped at once.
    pub(super) fn upload(&self, value: u64) -> Result<Number, Fault> {
        let pinned = self.take(Home::PageLocked, Some(Lane::Upload))?;
        self.0.borrow_mut().content[pinned.slot] = value;
        let there = self.take(Home::Upload, Some(Lane::Compute))?;
        let (from, to) = (pinned.slot, there.slot);
        self.queue(Lane::Upload, Op::Copy { from, to });
        Ok(there)
    }

    /// A model that squares its input.
    pub(super) fn square(&self, input: &Number) -> Result<Number, Fault> {
        let output = self.take(Home::Compute, None)?;
        let (from, to) = (input.slot, output.slot);
        self.queue(Lane::Compute, Op::Square { from, to });
        Ok(output)
    }

    /// Lets a lane work until it is empty or waits for the other.
    pub(super) fn work(&self, lane: Lane) {
        while self.0.borrow_mut().step(lane) {}
    }

    /// What is left for a lane to do.
    pub(super) fn queued(&self, lane: Lane) -> usize {
        self.0.borrow().lanes[lane as usize].len()
    }

    /// Slots of the device that somebody still needs.
    pub(super) fn used(&self) -> usize {
        let world = self.0.borrow();
        let [upload, compute, _] = &world.free;
        world.on_device - upload.len() - compute.len()
    }

    pub(super) fn reclaimed(&self) -> usize {
        self.0.borrow().reclaimed
    }

    fn take(&self, home: Home, last_user: Option<Lane>) -> Result<Number, Fault> {
        self.go_on();
        let slot = self.0.borrow_mut().take(home)?;
        Ok(Number {
            slot,
            home,
            last_user,
            fake: self.clone(),
        })
    }

    fn queue(&self, lane: Lane, op: Op) {
        self.0.borrow_mut().lanes[lane as usize].push_back(op);
        self.go_on();
    }

    fn go_on(&self) {
        let mut world = self.0.borrow_mut();
        if let Some(lane) = world.luck.pop_front() {
            world.step(lane);
        }
    }
}

impl World {
    fn take(&mut self, home: Home) -> Result<Slot, Fault> {
        if let Some(slot) = self.free[home as usize].pop() {
            return Ok(slot);
        }
        if home != Home::PageLocked {
            if self.on_device == self.capacity {
                return Err(Fault::OutOfMemory("no slot left".to_owned()));
            }
            self.on_device += 1;
        }
        self.content.push(0);
        Ok(self.content.len() - 1)
    }

    /// Whether the lane could do something.
    fn step(&mut self, lane: Lane) -> bool {
        let blocked = match self.lanes[lane as usize].front() {
            None => true,
            Some(Op::Wait(event)) => !self.fired[*event],
            Some(Op::Copy { .. } | Op::Square { .. } | Op::Fire(_) | Op::Free(..)) => false,
        };
        if blocked {
            return false;
        }
        match self.lanes[lane as usize].pop_front() {
            None | Some(Op::Wait(_)) => {}
            Some(Op::Copy { from, to }) => self.content[to] = self.content[from],
            Some(Op::Square { from, to }) => self.content[to] = self.content[from].pow(2),
            Some(Op::Fire(event)) => self.fired[event] = true,
            Some(Op::Free(home, slot)) => self.free[home as usize].push(slot),
        }
        true
    }
}

impl Number {
    /// What the processor reads there.
    pub(super) fn read(&self) -> u64 {
        assert_eq!(self.home, Home::PageLocked);
        self.fake.0.borrow().content[self.slot]
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let mut world = self.fake.0.borrow_mut();
        match self.last_user {
            None => world.free[self.home as usize].push(self.slot),
            Some(lane) => world.lanes[lane as usize].push_back(Op::Free(self.home, self.slot)),
        }
    }
}

impl Lanes for Fake {
    type Event = usize;
    type Output = Number;

    fn record(&self, lane: Lane) -> Result<usize, Fault> {
        let event = self.0.borrow().fired.len();
        self.0.borrow_mut().fired.push(false);
        self.queue(lane, Op::Fire(event));
        Ok(event)
    }

    fn wait(&self, lane: Lane, event: &usize) -> Result<(), Fault> {
        self.queue(lane, Op::Wait(*event));
        Ok(())
    }

    fn download(&self, output: Number) -> Result<Number, Fault> {
        let here = self.take(Home::PageLocked, Some(Lane::Compute))?;
        let (from, to) = (output.slot, here.slot);
        self.queue(Lane::Compute, Op::Copy { from, to });
        Ok(here)
    }

    fn synchronize(&self, event: &usize) -> Result<(), Fault> {
        let mut world = self.0.borrow_mut();
        while !world.fired[*event] {
            let moved = [world.step(Lane::Compute), world.step(Lane::Upload)];
            assert!(moved.contains(&true), "the lanes wait for each other");
        }
        Ok(())
    }

    fn elapsed(&self, from: &usize, to: &usize) -> Result<Duration, Fault> {
        let world = self.0.borrow();
        assert!(world.fired[*from] && world.fired[*to]);
        Ok(Duration::from_micros((to - from) as u64))
    }

    fn reclaim(&self) -> Result<(), Fault> {
        let mut world = self.0.borrow_mut();
        while world.step(Lane::Compute) | world.step(Lane::Upload) {}
        world.on_device -= world.free[0].len() + world.free[1].len();
        world.free[0].clear();
        world.free[1].clear();
        world.reclaimed += 1;
        Ok(())
    }
}
