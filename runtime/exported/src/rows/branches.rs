//! The branches of `torch.cond`: rows are independent only if the condition is the same for every batch.

use super::{Proof, Proven, State, Stop};
use crate::graph::{Argument, Node, Operator, ValueId};
use crate::operators::{CHOICE, Rule};

/// Operator that reads the truth value of a tensor with one element.
const TRUTH: &str = "aten::is_nonzero";

impl Proof<'_> {
    /// Handles a node that reads a condition or chooses the result of a branch; returns `None` for any other node.
    pub(super) fn branched(&mut self, node: &Node, name: &str) -> Option<Proven<()>> {
        match name {
            TRUTH => Some(self.same_in_every_batch(node.operands())),
            CHOICE => Some(self.choice(node)),
            _ => None,
        }
    }

    fn same_in_every_batch(&self, values: Vec<ValueId>) -> Proven<()> {
        let is_constant = values.into_iter().all(|value| self.state(value) == State::Constant);
        if is_constant { Ok(()) } else { Err(Stop::Coupled) }
    }

    fn choice(&mut self, node: &Node) -> Proven<()> {
        let [(_, condition), (_, yes), (_, no)] = node.arguments.as_slice() else { return Err(Stop::Unknown) };
        self.same_in_every_batch(condition.values())?;
        let (yes, no) = (self.result(yes), self.result(no));
        if yes == no { self.finish(node, Rule::Elementwise, yes) } else { Err(Stop::Unknown) }
    }

    fn result(&self, argument: &Argument) -> State {
        argument.values().first().map_or(State::Constant, |value| self.settled(*value))
    }
}

pub(super) fn is_choice(node: &Node) -> bool {
    matches!(&node.operator, Operator::Registered { name, .. } if name == CHOICE)
}
