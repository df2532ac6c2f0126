//! Writes in place: what they change in the other tensors of the same memory.
//!
//! Rows that are written through one view are read through others. That is proven only as long as each element of the
//! memory belongs to the same row in all of its tensors.

use std::collections::{HashMap, HashSet};

use super::arguments::operand;
use super::{Proof, Proven, State, Stop};
use crate::graph::{Node, Program, ValueId};
use crate::memory::{self, Memory};
use crate::operators::Rule;

/// The tensors that share memory, as far as the proof has come. Groups have the numbers of [`Memory::group`].
#[derive(Debug)]
pub(super) struct SharedMemory {
    memory: Memory,
    /// Tensors of equal elements in each group.
    uniform: HashMap<ValueId, Vec<ValueId>>,
    /// Groups with a view.
    viewed: HashSet<ValueId>,
    /// Groups in which an element may belong to different rows, depending on the tensor.
    mixed: HashSet<ValueId>,
}

impl SharedMemory {
    pub(super) fn of(program: &Program) -> Self {
        let memory = Memory::of(program);
        Self { memory, uniform: HashMap::new(), viewed: HashSet::new(), mixed: HashSet::new() }
    }
}

impl Proof<'_> {
    /// Notes the memory of a result, whose state is stored already.
    pub(super) fn note_memory(&mut self, node: &Node, rule: Rule, result: ValueId) {
        let group = self.shared.memory.group(result);
        if self.state(result) == State::Uniform {
            self.shared.uniform.entry(group).or_default().push(result);
        }
        if !memory::target(node).is_empty() {
            return;
        }
        for origin in memory::shared(self.program, node) {
            self.shared.viewed.insert(group);
            if !self.keeps_rows(node, rule, origin, result) {
                self.shared.mixed.insert(group);
            }
        }
    }

    /// True if each element belongs to the same row in a view as in its origin.
    fn keeps_rows(&self, node: &Node, rule: Rule, origin: ValueId, view: ValueId) -> bool {
        let is_followed = matches!(self.state(origin), State::Rows(_));
        match (self.settled(origin), self.settled(view)) {
            (State::Rows(rows), to @ State::Rows(_)) => {
                is_followed || rule != Rule::Reshape || self.reshape(rows, node, view) == Ok(to)
            }
            (State::Rows(_) | State::Constant, State::Constant) => true,
            _ => false,
        }
    }

    /// Checks that an operator in place writes rows only to their own place, and stores what the write changes in other
    /// tensors.
    pub(super) fn check_in_place(&mut self, node: &Node, state: &State) -> Proven<()> {
        if memory::target(node).is_empty() {
            return Ok(());
        }
        let target = operand(node, 0).ok_or(Stop::Unknown)?;
        let group = self.shared.memory.group(target);
        match (self.state(target), state) {
            (State::Rows(before), State::Rows(after)) if before == *after => self.write_rows(group),
            (State::Uniform, State::Rows(_)) if self.settled(target) == *state => self.write_rows(group),
            (State::Uniform, State::Uniform) if !self.shared.viewed.contains(&group) => Ok(()),
            (State::Uniform, State::Uniform) if matches!(self.settled(target), State::Rows(_)) => {
                self.write_rows(group)
            }
            _ => Err(Stop::Unknown),
        }
    }

    /// Stores that a tensor of the group has got other elements in each row: the other tensors have rows too, or parts of
    /// some rows, whose elements are not decided.
    fn write_rows(&mut self, group: ValueId) -> Proven<()> {
        if self.shared.mixed.contains(&group) {
            return Err(Stop::Unknown);
        }
        for value in self.shared.uniform.remove(&group).unwrap_or_default() {
            match self.settled(value) {
                rows @ State::Rows(_) => drop(self.states.insert(value, rows)),
                _ => drop(self.undecided.insert(value)),
            }
        }
        Ok(())
    }
}
