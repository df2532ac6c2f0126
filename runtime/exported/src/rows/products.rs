//! Products of matrices, attention, and recurrent layers.

use super::arguments::{operand, others};
use super::{Proof, Proven, Rows, State, Stop};
use crate::graph::{Argument, Node, ValueId};
use crate::operators::Rule;

impl Proof<'_> {
    /// Handles products of matrices: the rows must be in a dimension that is not summed over.
    pub(super) fn product(&self, node: &Node, rule: Rule, result: ValueId) -> Proven<State> {
        // The arguments after the matrices are factors, such as `alpha` of `addmm`.
        if !self.are_constant(node, 3) {
            return Err(Stop::Unknown);
        }
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
            _ => {
                let sides = [(rows(0)?, rank(0)?, 0), (rows(1)?, rank(1)?, 1)];
                matmul(&sides, self.rank(result)?)
            }
        }
    }

    pub(super) fn attention(&self, node: &Node, result: ValueId) -> Proven<State> {
        let rank = self.rank(result)?;
        let mut found: Option<Rows> = None;
        let random = node.argument("dropout_p").is_some_and(|p| !matches!(p, Argument::Float(0.0) | Argument::Int(0)));
        if random {
            return Err(Stop::Unknown);
        }
        for value in node.operands() {
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

    /// Handles recurrent layers without packed sequences: the rows are the first or the second dimension.
    pub(super) fn recurrent(&self, node: &Node) -> Proven<State> {
        let first = operand(node, 0).ok_or(Stop::Unknown)?;
        let State::Rows(rows) = self.settled(first) else { return Err(Stop::Unknown) };
        let batch_first = match node.argument("batch_first") {
            None | Some(Argument::Bool(false)) => false,
            Some(Argument::Bool(true)) => true,
            Some(_) => return Err(Stop::Unknown),
        };
        let is_training = node.argument("train") != Some(&Argument::Bool(false));
        if is_training || node.argument("batch_sizes").is_some() || self.rank(first)? != 3 {
            return Err(Stop::Unknown);
        }
        let fit = others(node, 1).all(|value| match self.state(value) {
            State::Constant | State::Uniform => true,
            State::Rows(own) => own == Rows { dim: 1, ..rows.clone() },
            State::BatchSize | State::RowNumbers { .. } => false,
        });
        match (fit, rows.dim == usize::from(!batch_first)) {
            (true, true) => Ok(State::Rows(rows)),
            (true, false) => Err(Stop::Coupled),
            (false, _) => Err(Stop::Unknown),
        }
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
