//! Releases values in the order of their positions, whatever order they arrive in.

use std::collections::VecDeque;

/// A buffer of values with the positions 0, 1, 2, …; each position is either filled once or skipped once.
#[derive(Debug)]
pub struct ReorderBuffer<T> {
    /// Position of the front of `slots`.
    first: u64,
    slots: VecDeque<Slot<T>>,
}

#[derive(Debug)]
enum Slot<T> {
    Awaited,
    Filled(T),
    Skipped,
}

impl<T> Default for ReorderBuffer<T> {
    fn default() -> Self {
        Self { first: 0, slots: VecDeque::new() }
    }
}

impl<T> ReorderBuffer<T> {
    /// Fills a position and returns the values that may leave now, in order.
    pub fn fill(&mut self, position: u64, value: T) -> Vec<T> {
        self.set(position, Slot::Filled(value))
    }

    /// Marks a position as permanently empty, and returns the values that may leave now, in order.
    pub fn skip(&mut self, position: u64) -> Vec<T> {
        self.set(position, Slot::Skipped)
    }

    /// Returns the number of values that are held back.
    #[must_use]
    pub fn held(&self) -> usize {
        let held = |slot: &&Slot<T>| matches!(slot, Slot::Filled(_));
        self.slots.iter().filter(held).count()
    }

    fn set(&mut self, position: u64, slot: Slot<T>) -> Vec<T> {
        let Some(i) = position.checked_sub(self.first) else {
            return Vec::new(); // already filled or skipped
        };
        let i = i as usize;
        while self.slots.len() <= i {
            self.slots.push_back(Slot::Awaited);
        }
        if matches!(self.slots[i], Slot::Awaited) {
            self.slots[i] = slot;
        }
        self.release()
    }

    fn release(&mut self) -> Vec<T> {
        let mut released = Vec::new();
        loop {
            match self.slots.pop_front() {
                Some(Slot::Filled(value)) => released.push(value),
                Some(Slot::Skipped) => {}
                Some(Slot::Awaited) => {
                    self.slots.push_front(Slot::Awaited);
                    return released;
                }
                None => return released,
            }
            self.first += 1;
        }
    }
}
