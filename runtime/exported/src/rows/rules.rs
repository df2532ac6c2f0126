//! The effect of each kind of operator on the dimension of the rows.

use super::{Proof, Proven, Rows, State, Stop};
use crate::graph::{Argument, Node, Operator, ValueId};
use crate::monomial::Monomial;
use crate::operators::Rule;

impl Proof<'_> {
    /// Returns the rows of the first operand, if all other operands are constants.
    pub(super) fn only(&self, node: &Node) -> Proven<Rows> {
        let first = operand(node, 0).ok_or(Stop::Unknown)?;
        let others = node.arguments.iter().skip(1).flat_map(|(_, argument)| argument.values());
        if others.map(|value| self.settled(value)).any(|state| state != State::Constant) {
            return Err(Stop::Unknown);
        }
        match self.settled(first) {
            State::Rows(rows) => Ok(rows),
            State::Constant | State::Uniform | State::BatchSize | State::RowNumbers { .. } => Err(Stop::Unknown),
        }
    }

    /// Returns the state of an operator's result.
    pub(super) fn apply(&self, node: &Node, rule: Rule, result: ValueId) -> Proven<State> {
        match operand(node, 0).map(|value| self.state(value)) {
            Some(State::Uniform) if is_move(rule) && self.are_plain(node) => return Ok(State::Uniform),
            Some(State::RowNumbers { dim, step }) => return self.of_row_numbers(node, rule, (dim, step), result),
            Some(_) | None => {}
        }
        match rule {
            Rule::Elementwise => self.elementwise(node, result),
            Rule::Filled | Rule::FilledLike => self.filled(node, result),
            Rule::Dropout => match node.argument("train").or_else(|| node.argument("training")) {
                Some(Argument::Bool(false)) => self.only(node).map(State::Rows),
                Some(_) | None => Err(Stop::Unknown),
            },
            Rule::BatchNorm => self.batch_norm(node),
            Rule::Embedding => self.embedding(node),
            Rule::EmbeddingBag => self.embedding_bag(node),
            Rule::Index => self.indexed(node),
            Rule::Aligned => self.aligned(node),
            Rule::IndexSelect => self.selected(node),
            Rule::Arange => self.numbered(node, result),
            Rule::Einsum => self.einsum(node),
            Rule::Distance => self.distance(node),
            Rule::Paired(default) => self.paired(node, default, result),
            Rule::Samples => self.by_sample(node),
            Rule::Cell => self.cell(node),
            Rule::Convolution => self.convolution(node),
            Rule::Loss => self.loss(node, result),
            Rule::Repeat => self.repeated(node, result),
            Rule::Diagonal => self.diagonal(node),
            Rule::Whole => self.whole(node),
            Rule::Matmul | Rule::Attention | Rule::Addmm | Rule::Linear => self.product(node, rule, result),
            Rule::Reshape => self.reshape(self.only_but_sizes(node)?, node, result),
            Rule::Expand => self.expand(node, result),
            Rule::Cat | Rule::Stack => self.join(node, rule, result),
            Rule::Recurrent => self.recurrent(node),
            Rule::Transpose | Rule::TransposeLast | Rule::Move | Rule::Permute | Rule::Unsqueeze | Rule::Squeeze => {
                self.moved(node, rule)
            }
            Rule::Select | Rule::Unbind => self.removed(node),
            Rule::Over(_)
            | Rule::Along(_)
            | Rule::Last(_)
            | Rule::LastOf(_)
            | Rule::Transform(_)
            | Rule::Spatial(_)
            | Rule::Pad => self.over(node, rule, result),
            Rule::Size | Rule::Assertion => Err(Stop::Unknown),
        }
    }

    /// True if all operands but the first are constants or sizes.
    fn are_plain(&self, node: &Node) -> bool {
        let mut others = node.arguments.iter().skip(1).flat_map(|(_, argument)| argument.values());
        others.all(|value| matches!(self.state(value), State::Constant | State::BatchSize))
    }

    /// Handles the numbers of the rows, which say where a row stands: they may be moved and used as an index.
    fn of_row_numbers(&self, node: &Node, rule: Rule, (dim, step): (usize, i64), result: ValueId) -> Proven<State> {
        if !self.are_plain(node) {
            return Err(Stop::Coupled);
        }
        let shift = self.rank(result)?.saturating_sub(self.rank(operand(node, 0).ok_or(Stop::Unknown)?)?);
        let dim = match rule {
            Rule::Elementwise if is_named(node, &COPIES) => dim,
            Rule::Along(_) if is_whole_slice(node) => dim,
            Rule::Reshape => match self.reshape(plain(dim), node, result)? {
                State::Rows(rows) if rows == plain(rows.dim) => rows.dim,
                _ => return Err(Stop::Unknown),
            },
            Rule::Expand => dim + shift,
            Rule::Unsqueeze => {
                let added = axis(node.arguments.get(1).map(|(_, at)| at), self.rank(result)?).ok_or(Stop::Unknown)?;
                dim + usize::from(added <= dim)
            }
            _ => return Err(Stop::Coupled),
        };
        let is_by_row = self.sizes(result)?.get(dim) == Some(&Monomial::symbol(self.symbol));
        if is_by_row { Ok(State::RowNumbers { dim, step }) } else { Err(Stop::Unknown) }
    }

    /// Returns the rows of the first operand, if the other operands are constants or sizes.
    fn only_but_sizes(&self, node: &Node) -> Proven<Rows> {
        let first = operand(node, 0).ok_or(Stop::Unknown)?;
        match self.settled(first) {
            State::Rows(rows) => Ok(rows),
            State::Constant | State::Uniform | State::BatchSize | State::RowNumbers { .. } => Err(Stop::Unknown),
        }
    }

    /// Aligns the operands as broadcasting does. A number that depends on the size of the batch couples the rows.
    pub(super) fn elementwise(&self, node: &Node, result: ValueId) -> Proven<State> {
        let rank = self.rank(result)?;
        let mut found: Option<Rows> = None;
        let mut is_uniform = false;
        for value in node.arguments.iter().flat_map(|(_, argument)| argument.values()) {
            let rows = match self.state(value) {
                State::Constant => continue,
                State::Uniform => {
                    is_uniform = true;
                    continue;
                }
                State::BatchSize | State::RowNumbers { .. } => return Err(Stop::Coupled),
                State::Rows(rows) => rows,
            };
            let shift = rank.checked_sub(self.rank(value)?).ok_or(Stop::Unknown)?;
            let aligned = Rows { dim: rows.dim + shift, ..rows };
            match &found {
                // Each row meets each other one.
                Some(found) if found.dim != aligned.dim => return Err(Stop::Coupled),
                Some(found) if *found != aligned => return Err(Stop::Unknown),
                Some(_) => {}
                None => found = Some(aligned),
            }
        }
        match found {
            Some(rows) => Ok(State::Rows(rows)),
            // Equal elements and constants: the result repeats for each row only if the constants do.
            None if is_uniform => self.uniform_with_constants(node, result),
            None => Err(Stop::Unknown),
        }
    }

    /// Returns the state of a combination of equal elements with constants: the constants cannot differ between rows,
    /// because no constant has a dimension of the size of the batch.
    fn uniform_with_constants(&self, node: &Node, result: ValueId) -> Proven<State> {
        let tensors = node.arguments.iter().flat_map(|(_, argument)| argument.values());
        let constants = tensors.filter(|value| self.state(*value) == State::Constant && self.rank(*value) != Ok(0));
        if constants.count() == 0 {
            return Ok(State::Uniform);
        }
        let sizes = self.sizes(result)?;
        let own = sizes.iter().position(|size| *size == Monomial::symbol(self.symbol)).ok_or(Stop::Unknown)?;
        Ok(State::Rows(plain(own)))
    }

    /// Handles new tensors of equal elements, which are constants unless a dimension is that of the rows. An element that
    /// is the number of rows couples them.
    fn filled(&self, node: &Node, result: ValueId) -> Proven<State> {
        let element = node.argument("fill_value").or_else(|| node.argument("s"));
        let fill = element.map(Argument::values).unwrap_or_default();
        if fill.iter().any(|value| self.state(*value) != State::Constant) {
            return Err(Stop::Coupled);
        }
        let has_rows = self.sizes(result).map_or(true, |sizes| sizes.iter().any(|size| size.has(self.symbol)));
        Ok(if has_rows { State::Uniform } else { State::Constant })
    }

    fn batch_norm(&self, node: &Node) -> Proven<State> {
        let rows = self.only(node)?;
        let by_batch = node.argument("training") == Some(&Argument::Bool(true));
        let by_row = node.argument("use_input_stats").is_some();
        if rows.dim != 0 {
            return Err(Stop::Unknown);
        }
        if by_batch && !by_row { Err(Stop::Coupled) } else { Ok(State::Rows(rows)) }
    }

    /// Handles products of matrices: the rows must be in a dimension that is not summed over.
    fn product(&self, node: &Node, rule: Rule, result: ValueId) -> Proven<State> {
        let operands: Vec<Option<ValueId>> = (0..node.arguments.len()).map(|index| operand(node, index)).collect();
        let rows = |index: usize| match operands.get(index).copied().flatten().map(|value| self.settled(value)) {
            Some(State::Rows(rows)) => Ok(Some(rows)),
            Some(State::Constant) | None => Ok(None),
            Some(State::Uniform | State::BatchSize | State::RowNumbers { .. }) => Err(Stop::Unknown),
        };
        let rank =
            |index: usize| operands.get(index).copied().flatten().ok_or(Stop::Unknown).and_then(|v| self.rank(v));
        match rule {
            Rule::Linear => {
                let (input, weight) = (rows(0)?.ok_or(Stop::Unknown)?, rows(1)?);
                let bias = rows(2)?;
                if weight.is_some() || bias.is_some() {
                    return Err(Stop::Unknown);
                }
                if input.dim + 1 == rank(0)? { Err(Stop::Coupled) } else { Ok(State::Rows(input)) }
            }
            Rule::Addmm => match (rows(0)?, rows(1)?, rows(2)?) {
                (None, Some(left), None) => {
                    if left.dim == 1 {
                        Err(Stop::Coupled)
                    } else {
                        Ok(State::Rows(left))
                    }
                }
                _ => Err(Stop::Unknown),
            },
            Rule::Attention => self.attention(node, result),
            _ => {
                let sides = [(rows(0)?, rank(0)?, 0), (rows(1)?, rank(1)?, 1)];
                matmul(&sides, self.rank(result)?)
            }
        }
    }

    fn attention(&self, node: &Node, result: ValueId) -> Proven<State> {
        let rank = self.rank(result)?;
        let mut found: Option<Rows> = None;
        let random = node.argument("dropout_p").is_some_and(|p| !matches!(p, Argument::Float(0.0) | Argument::Int(0)));
        if random {
            return Err(Stop::Unknown);
        }
        for value in node.arguments.iter().flat_map(|(_, argument)| argument.values()) {
            let rows = match self.state(value) {
                State::Constant | State::Uniform => continue,
                State::BatchSize | State::RowNumbers { .. } => return Err(Stop::Unknown),
                State::Rows(rows) => rows,
            };
            let own = self.rank(value)?;
            if rows.dim + 2 >= own {
                return Err(Stop::Coupled);
            }
            let aligned = Rows { dim: rows.dim + rank - own.min(rank), ..rows };
            match &found {
                Some(found) if *found != aligned => return Err(Stop::Unknown),
                Some(_) => {}
                None => found = Some(aligned),
            }
        }
        found.map(State::Rows).ok_or(Stop::Unknown)
    }

    /// Follows the rows into another shape with the same elements in the same order.
    fn reshape(&self, rows: Rows, node: &Node, result: ValueId) -> Proven<State> {
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

    fn expand(&self, node: &Node, result: ValueId) -> Proven<State> {
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

    fn join(&self, node: &Node, rule: Rule, result: ValueId) -> Proven<State> {
        let rank = self.rank(result)?;
        let along = axis(node.argument("dim"), rank).unwrap_or(0);
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

    /// Handles recurrent layers without packed sequences: the rows are the first or the second dimension.
    pub(super) fn recurrent(&self, node: &Node) -> Proven<State> {
        let first = operand(node, 0).ok_or(Stop::Unknown)?;
        let State::Rows(rows) = self.settled(first) else { return Err(Stop::Unknown) };
        let batch_first = node.argument("batch_first") == Some(&Argument::Bool(true));
        let is_training = node.argument("train") != Some(&Argument::Bool(false));
        if is_training || node.argument("batch_sizes").is_some() || self.rank(first)? != 3 {
            return Err(Stop::Unknown);
        }
        let mut others = node.arguments.iter().skip(1).flat_map(|(_, argument)| argument.values());
        let fit = others.all(|value| match self.state(value) {
            State::Constant | State::Uniform => true,
            State::Rows(rows) => rows == plain(1),
            State::BatchSize | State::RowNumbers { .. } => false,
        });
        let expected = if batch_first { plain(0) } else { plain(1) };
        match (fit, rows == expected) {
            (true, true) => Ok(State::Rows(rows)),
            (true, false) => Err(Stop::Coupled),
            (false, _) => Err(Stop::Unknown),
        }
    }

    /// Handles operators that move, add or remove dimensions of size one.
    fn moved(&self, node: &Node, rule: Rule) -> Proven<State> {
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
                // Without a dimension, a batch of one row would lose its dimension.
                let removed = axes(argument(1), rank).ok_or(Stop::Coupled)?;
                if removed.contains(&rows.dim) {
                    return Err(Stop::Coupled);
                }
                let sizes = self.sizes(operand(node, 0).ok_or(Stop::Unknown)?)?;
                rows.dim - removed.iter().filter(|dim| **dim < rows.dim && sizes[**dim] == Monomial::one()).count()
            }
        };
        Ok(State::Rows(Rows { dim, ..rows }))
    }

    /// Handles operators that take one element of a dimension.
    fn removed(&self, node: &Node) -> Proven<State> {
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
    fn over(&self, node: &Node, rule: Rule, result: ValueId) -> Proven<State> {
        let rows = self.only_but_sizes(node)?;
        let rank = self.rank(operand(node, 0).ok_or(Stop::Unknown)?)?;
        if is_whole_slice(node) {
            return Ok(State::Rows(rows));
        }
        let dims = computed(node, rule, rank).ok_or(Stop::Unknown)?;
        if dims.contains(&rows.dim) {
            return Err(Stop::Coupled);
        }
        // The size of a grid is that of its result, which is checked.
        if !is_named(node, &["affine_grid_generator"]) {
            self.only(node)?;
        }
        let is_reduced = matches!(rule, Rule::Over(_)) && self.rank(result)? < rank;
        let removed = if is_reduced { dims.iter().filter(|dim| **dim < rows.dim).count() } else { 0 };
        Ok(State::Rows(Rows { dim: rows.dim - removed, ..rows }))
    }
}

/// Handles a product of matrices: rows, rank and index of each side, and the rank of the result.
fn matmul(sides: &[(Option<Rows>, usize, usize); 2], result: usize) -> Proven<State> {
    let mut found: Option<Rows> = None;
    for (rows, rank, side) in sides {
        let Some(rows) = rows else { continue };
        let from_end = rank - rows.dim;
        let summed = if *side == 0 { from_end == 1 } else { from_end == 2 || *rank == 1 };
        if summed {
            return Err(Stop::Coupled);
        }
        let both = sides.iter().all(|(rows, ..)| rows.is_some());
        if from_end <= 2 && both {
            return Err(Stop::Coupled);
        }
        // A product with a vector has no columns.
        let missing = usize::from(*side == 0 && sides[1].1 == 1);
        let dim = (result + missing).checked_sub(from_end).ok_or(Stop::Unknown)?;
        let aligned = Rows { dim, ..rows.clone() };
        match &found {
            Some(found) if *found != aligned => return Err(Stop::Unknown),
            Some(_) => {}
            None => found = Some(aligned),
        }
    }
    found.map(State::Rows).ok_or(Stop::Unknown)
}

/// Returns the tensor that is the argument at this position.
pub(super) fn operand(node: &Node, index: usize) -> Option<ValueId> {
    match node.arguments.get(index) {
        Some((_, Argument::Value(value))) => Some(*value),
        Some(_) | None => None,
    }
}

/// Returns true for an operator of the namespace `aten` with one of these names.
pub(super) fn is_named(node: &Node, names: &[&str]) -> bool {
    let Operator::Registered { name, .. } = &node.operator else { return false };
    name.strip_prefix("aten::").is_some_and(|name| names.contains(&name))
}

/// Operators that copy their operand, perhaps to another type or device.
const COPIES: [&str; 7] = ["to", "_to_copy", "clone", "contiguous", "detach", "alias", "type_as"];

/// Returns true for a rule that moves elements without combining them.
fn is_move(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::Reshape
            | Rule::Transpose
            | Rule::TransposeLast
            | Rule::Move
            | Rule::Permute
            | Rule::Unsqueeze
            | Rule::Squeeze
            | Rule::Expand
            | Rule::Select
            | Rule::Unbind
            | Rule::Repeat
    )
}

/// Returns the new place of a dimension, when others move to the places in `to` and the rest keeps its order.
fn moved_dim(dim: usize, rank: usize, from: &[usize], to: &[usize]) -> Proven<usize> {
    if let Some(at) = from.iter().position(|own| *own == dim) {
        return to.get(at).copied().ok_or(Stop::Unknown);
    }
    let before = (0..dim).filter(|other| !from.contains(other)).count();
    (0..rank).filter(|place| !to.contains(place)).nth(before).ok_or(Stop::Unknown)
}

/// True for `x[:]`, which an export writes as a slice from 0 to the largest integer.
fn is_whole_slice(node: &Node) -> bool {
    let is_slice = matches!(&node.operator, Operator::Registered { name, .. } if name == "aten::slice");
    let starts = matches!(node.argument("start"), None | Some(Argument::None | Argument::Int(0)));
    let ends = matches!(node.argument("end"), None | Some(Argument::None | Argument::Int(i64::MAX)));
    is_slice && starts && ends && matches!(node.argument("step"), None | Some(Argument::Int(1)))
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
            // The default of a part is the first dimension, and of an order the last one.
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
            Some(Argument::List(sizes)) => Some(last(sizes.len() / 2)),
            Some(_) | None => None,
        },
        _ => None,
    }
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
        "aten::sort" | "aten::argsort" | "aten::topk" | "aten::glu" | "aten::diff" => rank.checked_sub(1),
        _ => None,
    }
}

pub(super) fn axis(argument: Option<&Argument>, rank: usize) -> Option<usize> {
    let Some(Argument::Int(axis)) = argument else { return None };
    let axis = if *axis < 0 { axis + rank as i64 } else { *axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}

fn axes(argument: Option<&Argument>, rank: usize) -> Option<Vec<usize>> {
    match argument {
        Some(Argument::List(all)) => all.iter().map(|one| axis(Some(one), rank)).collect(),
        one => axis(one, rank).map(|one| vec![one]),
    }
}

/// Rows that are a dimension of their own.
pub(super) fn plain(dim: usize) -> Rows {
    Rows { dim, outer: Monomial::one(), inner: Monomial::one() }
}
