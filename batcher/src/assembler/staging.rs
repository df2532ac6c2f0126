//! Finds the items whose inputs are copied before their batch is formed.

use super::entry::{Entry, Rank};
use super::{Assembler, Id};
use crate::Item;

/// The items that were staged since the last batch was formed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Staged {
    /// Index of the group of the item staged last, and the rank of this item.
    last: Option<(usize, Rank)>,
    /// Total weight of the staged items of this group, including those that have left the queue since.
    weight: usize,
}

/// A queued item to stage.
#[derive(Clone, Copy, Debug)]
pub struct ToStage<'a, T> {
    /// Identity of the item in the queue.
    pub id: Id,
    /// The item, which stays queued.
    pub item: &'a T,
    /// Weight of the largest batch that the item may be part of.
    pub most: usize,
}

impl Staged {
    /// Returns the total weight of the items of this group that were staged.
    pub(super) fn of(&self, group: usize) -> usize {
        self.last.filter(|(of, _)| *of == group).map_or(0, |_| self.weight)
    }
}

impl<T: Item> Assembler<T> {
    /// Returns the next item that will probably be in the next batch and is not staged yet, and counts it as staged.
    /// Returns `None` if there is no such item, or if the staged items fill a batch. Staging an item decides nothing:
    /// the item may still be cancelled, expire, or be overtaken.
    pub fn stage(&self, staged: &mut Staged) -> Option<ToStage<'_, T>> {
        let index = self.groups.first()?;
        let (rank, entry) = self.unstaged(index, staged)?;
        *staged = Staged { last: Some((index, rank)), weight: staged.of(index) + entry.weight };
        Some(ToStage { id: entry.id, item: &entry.item, most: self.best(self.groups.get(index)) })
    }

    /// Returns the group's first item that is not staged, if the group is the next one to run, and the item fits into a
    /// batch with the staged ones.
    pub(super) fn unstaged(&self, index: usize, staged: &Staged) -> Option<(Rank, &Entry<T>)> {
        let group = self.groups.get(index);
        let last = staged.last.filter(|(of, _)| *of == index);
        let next = match last {
            Some((_, rank)) => group.after(rank),
            None => group.queue.first_key_value(),
        };
        let (&rank, &slot) = next.filter(|_| self.groups.first() == Some(index))?;
        let entry = &self.entries[slot];
        (staged.of(index) + entry.weight <= self.best(group)).then_some((rank, entry))
    }
}
