//! Operators that combine two or more tensors otherwise than element by element: sums of products, distances, samples.

use super::arguments::{axis, operand, plain};
use super::{Proof, Proven, Rows, State, Stop};
use crate::graph::{Argument, Node, ValueId};
use crate::monomial::Monomial;

impl Proof<'_> {
    /// Handles `einsum`: the rows must have the same letter in every operand that has them, and in the result.
    pub(super) fn einsum(&self, node: &Node) -> Proven<State> {
        let (Some(Argument::Text(text)), Some((_, Argument::List(tensors)))) =
            (node.argument("equation"), node.arguments.get(1))
        else {
            return Err(Stop::Unknown);
        };
        let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        let (terms, result) = text.split_once("->").ok_or(Stop::Unknown)?;
        let terms: Vec<&str> = terms.split(',').collect();
        let values: Vec<ValueId> = tensors.iter().flat_map(Argument::values).collect();
        if text.contains('.') || terms.len() != values.len() {
            return Err(Stop::Unknown);
        }
        let mut found: Option<(char, Rows)> = None;
        for (term, value) in terms.iter().zip(&values) {
            let rows = match self.settled(*value) {
                State::Constant => continue,
                State::Rows(rows) => rows,
                State::Uniform | State::BatchSize | State::RowNumbers { .. } => return Err(Stop::Unknown),
            };
            let letter = term.chars().nth(rows.dim).ok_or(Stop::Unknown)?;
            let at = result.chars().position(|own| own == letter).ok_or(Stop::Coupled)?;
            let aligned = Rows { dim: at, ..rows };
            if term.matches(letter).count() > 1 || found.is_some_and(|found| found != (letter, aligned.clone())) {
                return Err(Stop::Coupled);
            }
            found = Some((letter, aligned));
        }
        let (letter, rows) = found.ok_or(Stop::Unknown)?;
        let elsewhere =
            |(term, value): (&&str, &ValueId)| term.contains(letter) && matches!(self.settled(*value), State::Constant);
        if terms.iter().zip(&values).any(elsewhere) { Err(Stop::Unknown) } else { Ok(State::Rows(rows)) }
    }

    /// Handles `cdist`, whose result has a row for each row of the left and a column for each row of the right.
    pub(super) fn distance(&self, node: &Node) -> Proven<State> {
        let (Some(left), Some(right)) = (operand(node, 0), operand(node, 1)) else { return Err(Stop::Unknown) };
        let rank = self.rank(left)?;
        if self.rank(right)? != rank || rank < 2 || !self.are_constant(node, 2) {
            return Err(Stop::Unknown);
        }
        match (self.settled(left), self.settled(right)) {
            (State::Rows(rows), State::Constant) if rows.dim + 1 < rank => Ok(State::Rows(rows)),
            (State::Constant, State::Rows(rows)) if rows.dim + 2 < rank => Ok(State::Rows(rows)),
            (State::Constant, State::Rows(rows)) if rows.dim + 2 == rank => {
                Ok(State::Rows(Rows { dim: rows.dim + 1, ..rows }))
            }
            (State::Rows(left), State::Rows(right)) if left == right && left.dim + 2 < rank => Ok(State::Rows(left)),
            (State::Rows(_), State::Rows(_)) => Err(Stop::Coupled),
            _ => Err(Stop::Unknown),
        }
    }

    /// Handles functions of two tensors along one dimension: that in `dim`, or else the default.
    pub(super) fn paired(&self, node: &Node, default: i64, result: ValueId) -> Proven<State> {
        let (Some(left), Some(right)) = (operand(node, 0), operand(node, 1)) else { return Err(Stop::Unknown) };
        let rank = self.rank(left)?.max(self.rank(right)?);
        let default = Argument::Int(default);
        let along = axis(node.argument("dim").or(Some(&default)), rank).ok_or(Stop::Unknown)?;
        let mut found: Option<Rows> = None;
        for (at, value) in node.operands().into_iter().enumerate() {
            let rows = match self.settled(value) {
                State::Constant => continue,
                State::Rows(rows) if at < 2 => rows,
                _ => return Err(Stop::Unknown),
            };
            let aligned = Rows { dim: rows.dim + rank - self.rank(value)?, ..rows };
            if aligned.dim == along || found.as_ref().is_some_and(|found| *found != aligned) {
                return Err(Stop::Coupled);
            }
            found = Some(aligned);
        }
        let rows = found.ok_or(Stop::Unknown)?;
        let removed = usize::from(self.rank(result)? < rank && along < rows.dim);
        Ok(State::Rows(Rows { dim: rows.dim - removed, ..rows }))
    }

    /// Handles operators whose tensors all have the rows in the first dimension, such as samples of images at points.
    pub(super) fn by_sample(&self, node: &Node) -> Proven<State> {
        let mut values = node.operands().into_iter();
        let fit = values.all(|value| match self.settled(value) {
            State::Rows(rows) => rows == plain(0),
            State::Constant => self.rank(value).is_err(),
            State::Uniform | State::BatchSize | State::RowNumbers { .. } => false,
        });
        if fit { Ok(State::Rows(plain(0))) } else { Err(Stop::Unknown) }
    }

    /// Handles a step of a recurrent cell: the input and the state have the rows first, and the weights have none.
    pub(super) fn cell(&self, node: &Node) -> Proven<State> {
        let states = node.operands().into_iter();
        let fit = states.clone().all(|value| match self.settled(value) {
            State::Rows(rows) => rows == plain(0) && self.rank(value) == Ok(2),
            State::Constant => true,
            State::Uniform | State::BatchSize | State::RowNumbers { .. } => false,
        });
        if fit { Ok(State::Rows(plain(0))) } else { Err(Stop::Unknown) }
    }

    /// Handles a convolution by its general name: the batch is the first dimension, and the weights have no rows.
    pub(super) fn convolution(&self, node: &Node) -> Proven<State> {
        let rows = self.only(node)?;
        let (Some(input), Some(weight)) = (operand(node, 0), operand(node, 1)) else { return Err(Stop::Unknown) };
        match (rows.dim, self.rank(input)? == self.rank(weight)?) {
            (0, true) => Ok(State::Rows(rows)),
            (1.., true) | (_, false) => Err(Stop::Unknown),
        }
    }

    /// Handles losses, which are reduced over all elements unless `reduction` is 0.
    pub(super) fn loss(&self, node: &Node, result: ValueId) -> Proven<State> {
        match node.argument("reduction") {
            Some(Argument::Int(0)) => self.elementwise(node, result),
            Some(_) | None => Err(Stop::Coupled),
        }
    }

    /// Handles copies of a tensor beside each other, in `repeats` or `repeat_interleave`.
    pub(super) fn repeated(&self, node: &Node, result: ValueId) -> Proven<State> {
        let first = operand(node, 0).ok_or(Stop::Unknown)?;
        let own_rank = self.rank(first)?;
        // Repeats in a tensor move rows by the repeats of the rows before them.
        let are_numbers =
            node.argument("repeats").is_none_or(|all| all.values().iter().all(|it| self.rank(*it).is_err()));
        if !are_numbers || !self.are_plain(node) {
            return Err(Stop::Unknown);
        }
        let shift = self.rank(result)?.checked_sub(own_rank).ok_or(Stop::Unknown)?;
        let sizes = self.sizes(result)?;
        match self.settled(first) {
            State::Rows(rows) => Ok(State::Rows(Rows { dim: rows.dim + shift, ..rows })),
            State::Constant => {
                let dim = sizes.iter().position(|size| size.has(self.symbol)).ok_or(Stop::Unknown)?;
                let symbol = Monomial::symbol(self.symbol);
                let inner = sizes[dim].divided_by(&symbol).filter(|inner| !inner.has(self.symbol));
                let is_first = matches!(node.arguments.get(1), Some((_, Argument::List(_))));
                let inner = inner.filter(|_| is_first).ok_or(Stop::Unknown)?;
                Ok(State::Rows(Rows { dim, inner, ..plain(dim) }))
            }
            State::Uniform => Ok(State::Uniform),
            State::BatchSize | State::RowNumbers { .. } => Err(Stop::Unknown),
        }
    }

    /// Handles the diagonal of two dimensions, which becomes the last dimension.
    pub(super) fn diagonal(&self, node: &Node) -> Proven<State> {
        let rows = self.only(node)?;
        let rank = self.rank(operand(node, 0).ok_or(Stop::Unknown)?)?;
        let dim = |name: &str, default: i64| {
            let default = Argument::Int(default);
            axis(node.argument(name).or(Some(&default)), rank).ok_or(Stop::Unknown)
        };
        let (left, right) = (dim("dim1", 0)?, dim("dim2", 1)?);
        if left == right {
            return Err(Stop::Unknown);
        }
        if [left, right].contains(&rows.dim) {
            return Err(Stop::Coupled);
        }
        let gone = usize::from(left < rows.dim) + usize::from(right < rows.dim);
        Ok(State::Rows(Rows { dim: rows.dim - gone, ..rows }))
    }

    /// Handles operators whose result depends on all elements: rows in it are coupled. A loss depends on each row alone if
    /// it is not reduced.
    pub(super) fn whole(&self, node: &Node) -> Proven<State> {
        if node.argument("reduction") == Some(&Argument::Int(0)) {
            return Err(Stop::Unknown);
        }
        let mut values = node.operands().into_iter();
        let has_rows = values.any(|value| matches!(self.settled(value), State::Rows(_)));
        Err(if has_rows { Stop::Coupled } else { Stop::Unknown })
    }
}
