//! Operators that move, join, repeat or compute over dimensions.

use super::arguments::{axes, axis, is_named, is_whole_slice, operand, plain};
use super::{Proof, Proven, Rows, State, Stop};
use crate::graph::{Argument, Node, Operator, ValueId};
use crate::monomial::Monomial;
use crate::operators::Rule;

impl Proof<'_> {
    /// Follows the rows into another shape with the same elements in the same order.
    pub(super) fn reshape(&self, rows: Rows, node: &Node, result: ValueId) -> Proven<State> {
        let first = operand(node, 0).ok_or(Stop::Unknown)?;
        let (from, to) = (self.sizes(first)?, self.sizes(result)?);
        let product = |sizes: &[Monomial]| sizes.iter().try_fold(Monomial::one(), |product, size| product.times(size));
        let before = product(&from[..rows.dim]).and_then(|before| before.times(&rows.outer)).ok_or(Stop::Unknown)?;
        let after = product(&from[rows.dim + 1..]).and_then(|after| after.times(&rows.inner)).ok_or(Stop::Unknown)?;
        for dim in 0..to.len() {
            let outer = product(&to[..dim]).and_then(|left| before.divided_by(&left));
            let inner = product(&to[dim + 1..]).and_then(|right| after.divided_by(&right));
            if let (true, Some(outer), Some(inner)) = (to[dim].has(self.symbol), outer, inner) {
                return Ok(State::Rows(Rows { dim, outer, inner }));
            }
        }
        Err(Stop::Unknown)
    }

    pub(super) fn expand(&self, node: &Node, result: ValueId) -> Proven<State> {
        let first = operand(node, 0).ok_or(Stop::Unknown)?;
        match self.state(first) {
            State::Rows(rows) => {
                let shift = self.rank(result)?.checked_sub(self.rank(first)?).ok_or(Stop::Unknown)?;
                Ok(State::Rows(Rows { dim: rows.dim + shift, ..rows }))
            }
            // A constant that is repeated for each row.
            State::Constant => {
                let sizes = self.sizes(result)?;
                let own = sizes.iter().position(|size| *size == Monomial::symbol(self.symbol)).ok_or(Stop::Unknown)?;
                Ok(State::Rows(plain(own)))
            }
            State::Uniform => Ok(State::Uniform),
            State::BatchSize | State::RowNumbers { .. } => Err(Stop::Unknown),
        }
    }

    pub(super) fn join(&self, node: &Node, rule: Rule, result: ValueId) -> Proven<State> {
        let rank = self.rank(result)?;
        let along = axis(node.argument("dim").or(Some(&Argument::Int(0))), rank).ok_or(Stop::Unknown)?;
        let mut found: Option<Rows> = None;
        let Some((_, Argument::List(parts))) = node.arguments.first() else { return Err(Stop::Unknown) };
        for value in parts.iter().flat_map(Argument::values) {
            let mut rows = match self.state(value) {
                State::Uniform => continue,
                // A constant has no dimension of the size of the batch, so it cannot stand beside rows.
                State::Constant | State::BatchSize | State::RowNumbers { .. } => return Err(Stop::Unknown),
                State::Rows(rows) => rows,
            };
            if rule == Rule::Stack && rows.dim >= along {
                rows.dim += 1;
            } else if rule == Rule::Cat && rows.dim == along {
                return Err(Stop::Coupled);
            }
            match &found {
                Some(found) if *found != rows => return Err(Stop::Unknown),
                Some(_) => {}
                None => found = Some(rows),
            }
        }
        found.map(State::Rows).ok_or(Stop::Unknown)
    }

    /// Handles operators that move dimensions, and those that add or remove dimensions of size one.
    pub(super) fn moved(&self, node: &Node, rule: Rule) -> Proven<State> {
        let rows = self.only(node)?;
        let rank = self.rank(operand(node, 0).ok_or(Stop::Unknown)?)?;
        let argument = |index: usize| node.arguments.get(index).map(|(_, argument)| argument);
        let dim = match rule {
            Rule::Transpose => {
                let (left, right) = (axis(argument(1), rank), axis(argument(2), rank));
                let (Some(left), Some(right)) = (left, right) else { return Err(Stop::Unknown) };
                match rows.dim {
                    dim if dim == left => right,
                    dim if dim == right => left,
                    dim => dim,
                }
            }
            Rule::TransposeLast => match rank - rows.dim {
                1 if rank > 1 => rank - 2,
                2 => rank - 1,
                _ => rows.dim,
            },
            Rule::Move => {
                let (from, to) = (axes(argument(1), rank), axes(argument(2), rank));
                moved_dim(rows.dim, rank, &from.ok_or(Stop::Unknown)?, &to.ok_or(Stop::Unknown)?)?
            }
            Rule::Permute => match argument(1) {
                None => rank - 1 - rows.dim,
                order => {
                    let order = axes(order, rank).ok_or(Stop::Unknown)?;
                    order.iter().position(|from| *from == rows.dim).ok_or(Stop::Unknown)?
                }
            },
            Rule::Unsqueeze => {
                let added = axis(argument(1), rank + 1).ok_or(Stop::Unknown)?;
                rows.dim + usize::from(added <= rows.dim)
            }
            _ => {
                // An operator that names no dimension removes all of size one, including that of a batch of one row.
                let removed = axes(argument(1), rank).ok_or(Stop::Coupled)?;
                if removed.contains(&rows.dim) {
                    return Err(Stop::Coupled);
                }
                let sizes = self.sizes(operand(node, 0).ok_or(Stop::Unknown)?)?;
                // A dimension of a variable size is removed only by requests with the size 1.
                if removed.iter().any(|dim| !sizes[*dim].is_number()) {
                    return Err(Stop::Unknown);
                }
                let before = removed.iter().filter(|dim| **dim < rows.dim && sizes[**dim] == Monomial::one());
                // libtorch refuses dimensions that are named twice.
                rows.dim.checked_sub(before.count()).ok_or(Stop::Unknown)?
            }
        };
        Ok(State::Rows(Rows { dim, ..rows }))
    }

    /// Handles operators that take one element of a dimension.
    pub(super) fn removed(&self, node: &Node) -> Proven<State> {
        let rows = self.only(node)?;
        let rank = self.rank(operand(node, 0).ok_or(Stop::Unknown)?)?;
        let taken = match node.argument("dim") {
            None => 0,
            dim => axis(dim, rank).ok_or(Stop::Unknown)?,
        };
        if taken == rows.dim {
            return Err(Stop::Coupled);
        }
        Ok(State::Rows(Rows { dim: rows.dim - usize::from(taken < rows.dim), ..rows }))
    }

    /// Handles operators that compute over some dimensions, which must not include that of the rows.
    pub(super) fn over(&self, node: &Node, rule: Rule, result: ValueId) -> Proven<State> {
        let rows = self.only_but_sizes(node)?;
        let rank = self.rank(operand(node, 0).ok_or(Stop::Unknown)?)?;
        if is_whole_slice(node) {
            return Ok(State::Rows(rows));
        }
        let dims = computed(node, rule, rank).ok_or(Stop::Unknown)?;
        if dims.contains(&rows.dim) {
            return Err(Stop::Coupled);
        }
        // The size argument of `affine_grid_generator` contains the number of rows; the size of its result is checked
        // later.
        if !is_named(node, &["affine_grid_generator"]) {
            self.only(node)?;
        }
        let is_reduced = matches!(rule, Rule::Over(_)) && self.rank(result)? < rank;
        let removed = if is_reduced { dims.iter().filter(|dim| **dim < rows.dim).count() } else { 0 };
        Ok(State::Rows(Rows { dim: rows.dim.checked_sub(removed).ok_or(Stop::Unknown)?, ..rows }))
    }
}

/// Returns the new place of a dimension after the dimensions `from` have moved to the places `to`. The other dimensions
/// keep their order.
fn moved_dim(dim: usize, rank: usize, from: &[usize], to: &[usize]) -> Proven<usize> {
    if let Some(at) = from.iter().position(|own| *own == dim) {
        return to.get(at).copied().ok_or(Stop::Unknown);
    }
    let before = (0..dim).filter(|other| !from.contains(other)).count();
    (0..rank).filter(|place| !to.contains(place)).nth(before).ok_or(Stop::Unknown)
}

/// Returns the dimensions that an operator computes over.
fn computed(node: &Node, rule: Rule, rank: usize) -> Option<Vec<usize>> {
    let last = |count: usize| (rank.saturating_sub(count)..rank).collect::<Vec<_>>();
    match rule {
        Rule::Over(name) => match node.argument(name) {
            None | Some(Argument::None) => Some((0..rank).collect()),
            Some(Argument::List(all)) if all.is_empty() => Some((0..rank).collect()),
            dims => axes(dims, rank),
        },
        Rule::Along(name) => match node.argument(name) {
            // Operators that take a part of a tensor default to the first dimension, and those that order it to the
            // last one.
            None if is_named(node, &["roll"]) => Some((0..rank).collect()),
            Some(Argument::List(all)) if all.is_empty() && is_named(node, &["roll"]) => Some((0..rank).collect()),
            None => default_axis(node, rank).map(|axis| vec![axis]),
            dims => axes(dims, rank),
        },
        Rule::Last(count) => Some(last(count)),
        Rule::Transform(count) => match node.argument("dim") {
            None | Some(Argument::None) => Some(last(count)),
            Some(Argument::List(all)) if all.is_empty() => Some(last(count)),
            dims => axes(dims, rank),
        },
        Rule::LastOf(name) => match node.argument(name) {
            Some(Argument::List(sizes)) => Some(last(sizes.len())),
            Some(_) | None => None,
        },
        // The channels come before the spatial dimensions. Group norm takes all dimensions but the first.
        Rule::Spatial(0) => Some((1..rank).collect()),
        Rule::Spatial(count) => Some(last(count + 1)),
        Rule::Pad => match node.argument("pad").or_else(|| node.argument("padding")) {
            Some(Argument::List(sizes)) => Some(padded(sizes, rank)),
            Some(_) | None => None,
        },
        _ => None,
    }
}

/// Returns the dimensions that get more elements. Each has two sizes, and those of the last dimension come first.
fn padded(sizes: &[Argument], rank: usize) -> Vec<usize> {
    let pairs = (0..rank).rev().zip(sizes.chunks(2));
    let is_changed = |pair: &[Argument]| pair.iter().any(|size| *size != Argument::Int(0));
    pairs.filter(|(_, pair)| is_changed(pair)).map(|(dim, _)| dim).collect()
}

fn default_axis(node: &Node, rank: usize) -> Option<usize> {
    let Operator::Registered { name, .. } = &node.operator else { return None };
    match name.as_str() {
        "aten::slice"
        | "aten::narrow"
        | "aten::split"
        | "aten::split_with_sizes"
        | "aten::chunk"
        | "aten::unsafe_split"
        | "aten::unsafe_chunk"
        | "aten::tensor_split" => Some(0),
        "aten::channel_shuffle" | "aten::native_channel_shuffle" => Some(1),
        "aten::sort" | "aten::argsort" | "aten::topk" | "aten::glu" | "aten::diff" => rank.checked_sub(1),
        _ => None,
    }
}
