//! Reads of a node's arguments, as the rules of several kinds of operators need them.

use super::Rows;
use crate::graph::{Argument, Node, Operator, ValueId};
use crate::monomial::Monomial;

/// Returns the tensor that is the argument at this position.
pub(super) fn operand(node: &Node, index: usize) -> Option<ValueId> {
    match node.arguments.get(index) {
        Some((_, Argument::Value(value))) => Some(*value),
        Some(_) | None => None,
    }
}

/// Returns the values in the arguments from this position on.
pub(super) fn others(node: &Node, from: usize) -> impl Iterator<Item = ValueId> {
    node.arguments.iter().skip(from).flat_map(|(_, argument)| argument.values())
}

/// Returns true for an operator of the namespace `aten` with one of these names.
pub(super) fn is_named(node: &Node, names: &[&str]) -> bool {
    let Operator::Registered { name, .. } = &node.operator else { return false };
    name.strip_prefix("aten::").is_some_and(|name| names.contains(&name))
}

/// Returns true for `x[:]`, which an export writes as a slice from 0 to the largest integer.
pub(super) fn is_whole_slice(node: &Node) -> bool {
    let is_slice = matches!(&node.operator, Operator::Registered { name, .. } if name == "aten::slice");
    let starts = matches!(node.argument("start"), None | Some(Argument::None | Argument::Int(0)));
    let ends = matches!(node.argument("end"), None | Some(Argument::None | Argument::Int(i64::MAX)));
    is_slice && starts && ends && matches!(node.argument("step"), None | Some(Argument::Int(1)))
}

/// Returns a dimension by its number, which counts from the end if it is negative.
pub(super) fn axis(argument: Option<&Argument>, rank: usize) -> Option<usize> {
    let Some(Argument::Int(axis)) = argument else { return None };
    let axis = if *axis < 0 { axis + rank as i64 } else { *axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}

/// Returns dimensions by a number or a list of numbers.
pub(super) fn axes(argument: Option<&Argument>, rank: usize) -> Option<Vec<usize>> {
    match argument {
        Some(Argument::List(all)) => all.iter().map(|one| axis(Some(one), rank)).collect(),
        one => axis(one, rank).map(|one| vec![one]),
    }
}

/// Returns rows that are the whole of a dimension, which no reshape has merged with another one.
pub(super) fn plain(dim: usize) -> Rows {
    Rows { dim, outer: Monomial::one(), inner: Monomial::one() }
}
