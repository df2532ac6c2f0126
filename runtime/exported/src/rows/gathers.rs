//! Operators that take elements by index: look-ups, scatters, and the numbers of the rows.

use super::arguments::{axis, is_named, operand, others, plain};
use super::{Proof, Proven, Rows, State, Stop};
use crate::graph::{Argument, ElementType, Node, ValueId};
use crate::monomial::Monomial;

/// Operators that write elements to the positions in `index`.
const SCATTERS: [&str; 6] = ["scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"];

/// Element types of indices that say of each element whether it is taken.
const MASKS: [ElementType; 2] = [0, 11];

impl Proof<'_> {
    /// Handles `arange`: if it has an element for each row, the elements are the numbers of the rows times the step.
    pub(super) fn numbered(&self, node: &Node, result: ValueId) -> Proven<State> {
        let mut states = node.operands().into_iter().map(|value| self.state(value));
        if states.any(|state| !matches!(state, State::Constant | State::BatchSize)) {
            return Err(Stop::Unknown);
        }
        let number = |name: &str, default: i64| match node.argument(name) {
            None => Some(default),
            Some(Argument::Int(number)) => Some(*number),
            Some(_) => None,
        };
        let is_from_zero = number("start", 0) == Some(0);
        let step = number("step", 1).filter(|step| *step > 0).ok_or(Stop::Unknown)?;
        let is_by_row = *self.sizes(result)? == [Monomial::symbol(self.symbol)];
        if is_from_zero && is_by_row { Ok(State::RowNumbers { dim: 0, step }) } else { Err(Stop::Unknown) }
    }

    /// Handles a table of weights that is looked up by rows.
    pub(super) fn embedding(&self, node: &Node) -> Proven<State> {
        let (table, indices) = (operand(node, 0), operand(node, 1));
        let (Some(table), Some(indices)) = (table, indices) else { return Err(Stop::Unknown) };
        match (self.state(table), self.settled(indices)) {
            (State::Constant, State::Rows(rows)) => Ok(State::Rows(rows)),
            _ => Err(Stop::Unknown),
        }
    }

    /// Handles bags of indices: a list that is divided into bags of equal size, one for each row. PyTorch makes such a
    /// list of a matrix with a bag in each row.
    pub(super) fn embedding_bag(&self, node: &Node) -> Proven<State> {
        let (Some(table), Some(indices)) = (operand(node, 0), operand(node, 1)) else { return Err(Stop::Unknown) };
        let (State::Constant, State::Rows(rows)) = (self.state(table), self.settled(indices)) else {
            return Err(Stop::Unknown);
        };
        let weights = node.argument("per_sample_weights").map(Argument::values).unwrap_or_default();
        let aligned = |value: &ValueId| matches!(self.settled(*value), State::Rows(own) if own == rows);
        let includes_end = !matches!(node.argument("include_last_offset"), None | Some(Argument::Bool(false)));
        let mut settings = others(node, 3).filter(|value| !weights.contains(value));
        let are_constant = settings.all(|value| self.state(value) == State::Constant);
        if rows.dim != 0 || !weights.iter().all(aligned) || includes_end || !are_constant {
            return Err(Stop::Unknown);
        }
        let offsets = operand(node, 2).map(|value| self.state(value));
        match (self.rank(indices)?, offsets) {
            (1, Some(State::RowNumbers { dim: 0, step })) => {
                let fits = rows.outer == Monomial::one() && rows.inner == Monomial::number(step);
                if fits { Ok(State::Rows(plain(0))) } else { Err(Stop::Coupled) }
            }
            _ => Err(Stop::Unknown),
        }
    }

    /// Handles `tensor[a, :, b]`, whose indices are tensors that are broadcast together.
    pub(super) fn indexed(&self, node: &Node) -> Proven<State> {
        let (Some(source), Some((_, Argument::List(list)))) = (operand(node, 0), node.arguments.get(1)) else {
            return Err(Stop::Unknown);
        };
        let indices: Vec<Option<ValueId>> = list.iter().map(|index| index.values().first().copied()).collect();
        let ranks = indices.iter().flatten().map(|value| self.rank(*value)).collect::<Proven<Vec<usize>>>()?;
        let rank = ranks.iter().copied().max().ok_or(Stop::Unknown)?;
        let place = IndexPlacement::of(&indices, rank);
        let own = match self.settled(source) {
            State::Constant => None,
            State::Rows(rows) => Some(rows),
            State::Uniform | State::BatchSize | State::RowNumbers { .. } => return Err(Stop::Unknown),
        };
        let (rows, numbered) = self.indices(&indices, rank)?;
        match (own, rows, numbered) {
            (None, Some(rows), None) => Ok(State::Rows(Rows { dim: rows.dim + place.first, ..rows })),
            (Some(own), None, None) if indices.get(own.dim).is_none_or(Option::is_none) => {
                Ok(State::Rows(Rows { dim: place.after(own.dim, &indices), ..own }))
            }
            // The numbers of the rows index the dimension of the rows, so each row takes elements of itself.
            (Some(own), rows, Some((at, dim)))
                if own == plain(at) && rows.as_ref().is_none_or(|it| *it == plain(dim)) =>
            {
                Ok(State::Rows(plain(dim + place.first)))
            }
            (Some(_), _, _) => Err(Stop::Coupled),
            (None, _, _) => Err(Stop::Unknown),
        }
    }

    /// Returns the rows that the indices hold, and the position of the index that has the rows' numbers with the
    /// dimension of these, both after broadcasting to `rank` dimensions.
    #[expect(clippy::type_complexity, reason = "a pair of two optional findings, used once")]
    fn indices(&self, indices: &[Option<ValueId>], rank: usize) -> Proven<(Option<Rows>, Option<(usize, usize)>)> {
        let (mut found, mut numbered): (Option<Rows>, _) = (None, None);
        for (at, value) in indices.iter().enumerate() {
            let Some(value) = value else { continue };
            let shift = rank - self.rank(*value)?;
            match self.settled(*value) {
                State::Constant => {}
                State::Uniform | State::BatchSize => return Err(Stop::Unknown),
                State::RowNumbers { dim, step: 1 } if numbered.is_none() => numbered = Some((at, dim + shift)),
                State::RowNumbers { .. } => return Err(Stop::Coupled),
                State::Rows(rows) => {
                    let aligned = Rows { dim: rows.dim + shift, ..rows };
                    match &found {
                        Some(found) if *found != aligned => return Err(Stop::Coupled),
                        Some(_) => {}
                        None => found = Some(aligned),
                    }
                }
            }
        }
        Ok((found, numbered))
    }

    /// Handles `gather` and `scatter`: tensors of the same rank that have the same rows, along another dimension.
    pub(super) fn aligned(&self, node: &Node) -> Proven<State> {
        let rank = self.rank(operand(node, 0).ok_or(Stop::Unknown)?)?;
        let along = axis(node.argument("dim"), rank).ok_or(Stop::Unknown)?;
        let index = node.argument("index").map(Argument::values).unwrap_or_default();
        let is_by_row = |value: &ValueId| matches!(self.settled(*value), State::Rows(rows) if rows.dim == along);
        // Rows with the same index are written to the same place, whatever tensor that is in.
        if is_named(node, &SCATTERS) && index.iter().any(is_by_row) {
            return Err(Stop::Coupled);
        }
        let mut found: Option<Rows> = None;
        for value in node.operands() {
            let rows = match self.settled(value) {
                State::Rows(rows) if self.rank(value)? == rank => rows,
                // A number in place of a tensor.
                State::Constant if !matches!(self.rank(value), Ok(1..)) => continue,
                _ => return Err(Stop::Unknown),
            };
            if rows.dim == along || found.as_ref().is_some_and(|found| *found != rows) {
                return Err(Stop::Coupled);
            }
            found = Some(rows);
        }
        found.map(State::Rows).ok_or(Stop::Unknown)
    }

    /// Handles writes of elements to positions in a tensor. Rows with the same position meet there, unless another index
    /// has the rows' numbers, or the index is a mask.
    pub(super) fn written_at(&self, node: &Node) -> Proven<State> {
        let indices = node.argument("indices").or_else(|| node.argument("index"));
        let indices = indices.map(Argument::values).unwrap_or_default();
        let is_mask = |value: &ValueId| {
            self.program.values[*value].element_type.is_none_or(|element_type| MASKS.contains(&element_type))
        };
        let is_by_row = |value: &ValueId| matches!(self.settled(*value), State::Rows(_));
        let is_numbered = |value: &ValueId| matches!(self.settled(*value), State::RowNumbers { .. });
        let is_known = !indices.iter().any(|value| is_mask(value) || is_numbered(value));
        Err(if is_known && indices.iter().any(is_by_row) { Stop::Coupled } else { Stop::Unknown })
    }

    /// Handles `index_select`, also of a table that is the same for every batch.
    pub(super) fn selected(&self, node: &Node) -> Proven<State> {
        let (Some(source), Some(index)) = (operand(node, 0), operand(node, 2)) else { return Err(Stop::Unknown) };
        let along = axis(node.argument("dim"), self.rank(source)?).ok_or(Stop::Unknown)?;
        match (self.settled(source), self.settled(index)) {
            (State::Rows(rows), _) if rows.dim == along => Err(Stop::Coupled),
            (State::Rows(rows), State::Constant) => Ok(State::Rows(rows)),
            (State::Constant, State::Rows(rows)) if rows.dim == 0 => Ok(State::Rows(Rows { dim: along, ..rows })),
            (State::Rows(_), State::Rows(_)) => Err(Stop::Coupled),
            _ => Err(Stop::Unknown),
        }
    }
}

/// Position of the broadcast indices in the result of an indexing.
struct IndexPlacement {
    /// First of their dimensions.
    first: usize,
    /// Number of their dimensions.
    rank: usize,
    /// True if the broadcast dimensions replace the indexed ones; otherwise they come first.
    is_inside: bool,
}

impl IndexPlacement {
    fn of(indices: &[Option<ValueId>], rank: usize) -> Self {
        let given: Vec<usize> = (0..indices.len()).filter(|at| indices[*at].is_some()).collect();
        let is_inside = given.windows(2).all(|pair| pair[1] == pair[0] + 1);
        Self { first: if is_inside { given.first().copied().unwrap_or(0) } else { 0 }, rank, is_inside }
    }

    /// Returns the place of a dimension that is not indexed.
    fn after(&self, dim: usize, indices: &[Option<ValueId>]) -> usize {
        let gone = indices.iter().take(dim).filter(|index| index.is_some()).count();
        let comes_first = self.is_inside && dim < self.first;
        dim - gone + if comes_first { 0 } else { self.rank }
    }
}
