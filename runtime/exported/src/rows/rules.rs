//! The effect of each kind of operator on the dimension of the rows.

use super::arguments::{axis, is_named, is_whole_slice, operand, others, plain};
use super::{Proof, Proven, Rows, State, Stop};
use crate::graph::{Argument, Node, ValueId};
use crate::monomial::Monomial;
use crate::operators::Rule;

impl Proof<'_> {
    /// Returns the rows of the first operand, if all other operands are constants.
    pub(super) fn only(&self, node: &Node) -> Proven<Rows> {
        if self.are_constant(node, 1) { self.only_but_sizes(node) } else { Err(Stop::Unknown) }
    }

    /// True if the arguments from this position on are constants.
    pub(super) fn are_constant(&self, node: &Node, from: usize) -> bool {
        others(node, from).all(|value| self.settled(value) == State::Constant)
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
            Rule::IndexWrite => self.written_at(node),
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
            Rule::Attention => self.attention(node, result),
            Rule::Matmul | Rule::Addmm | Rule::Linear => self.product(node, rule, result),
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
    pub(super) fn are_plain(&self, node: &Node) -> bool {
        others(node, 1).all(|value| matches!(self.state(value), State::Constant | State::BatchSize))
    }

    /// Handles the numbers of the rows, `0, 1, 2, …` along their dimension. They may be moved, or index the rows; any
    /// other use couples the rows.
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

    /// Returns the rows of the first operand. The other operands may have any state: a caller uses this only if they
    /// are sizes, or a tensor of which only the sizes count.
    pub(super) fn only_but_sizes(&self, node: &Node) -> Proven<Rows> {
        let first = operand(node, 0).ok_or(Stop::Unknown)?;
        match self.settled(first) {
            State::Rows(rows) => Ok(rows),
            State::Uniform if self.is_by_rows_twice(first) => Err(Stop::Coupled),
            State::Constant | State::Uniform | State::BatchSize | State::RowNumbers { .. } => Err(Stop::Unknown),
        }
    }

    /// True for a matrix of rows by rows, such as a mask.
    fn is_by_rows_twice(&self, value: ValueId) -> bool {
        let sizes = self.sizes(value).unwrap_or_default();
        sizes.iter().filter(|size| size.has(self.symbol)).count() > 1
    }

    /// Aligns the operands as broadcasting does. A number that depends on the size of the batch couples the rows.
    pub(super) fn elementwise(&self, node: &Node, result: ValueId) -> Proven<State> {
        let rank = self.rank(result)?;
        let mut found: Option<Rows> = None;
        let mut is_uniform = false;
        for value in node.operands() {
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
                // Broadcasting combines each row of one operand with all rows of the other.
                Some(found) if found.dim != aligned.dim => return Err(Stop::Coupled),
                Some(found) if *found != aligned => return Err(Stop::Unknown),
                Some(_) => {}
                None => found = Some(aligned),
            }
        }
        match found {
            Some(rows) => Ok(State::Rows(rows)),
            // The operands are equal elements and constants.
            None if is_uniform => self.uniform_with_constants(node, result),
            None => Err(Stop::Unknown),
        }
    }

    /// Returns the state of a combination of equal elements with constants: the constants cannot differ between rows,
    /// because no constant has a dimension of the size of the batch.
    fn uniform_with_constants(&self, node: &Node, result: ValueId) -> Proven<State> {
        let tensors = node.operands().into_iter();
        let constants = tensors.filter(|value| self.state(*value) == State::Constant && self.rank(*value) != Ok(0));
        if constants.count() == 0 {
            return Ok(State::Uniform);
        }
        let sizes = self.sizes(result)?;
        let own = sizes.iter().position(|size| *size == Monomial::symbol(self.symbol)).ok_or(Stop::Unknown)?;
        Ok(State::Rows(plain(own)))
    }

    /// Handles new tensors of equal elements, which are constants unless a dimension is that of the rows. If the
    /// element itself depends on the number of rows, the rows are coupled.
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
        let by_batch = !matches!(node.argument("training"), None | Some(Argument::Bool(false)));
        let by_row = node.argument("use_input_stats").is_some();
        if rows.dim != 0 {
            return Err(Stop::Unknown);
        }
        if by_batch && !by_row { Err(Stop::Coupled) } else { Ok(State::Rows(rows)) }
    }
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
