//! Checks the sizes of a request's tensors against the program's contract, before anything runs.

use std::collections::HashMap;

use crate::expression::Expression;
use crate::graph::{Dimension, Program, ValueKind};
use crate::tree::Step;

/// Smallest lower bound that the check enforces. An export records 2 as the lower bound of every dynamic size, because
/// it treats 0 and 1 as special; the program runs with a size of 1 nevertheless.
const LEAST_BOUND: i64 = 3;

/// Largest number of rows for which guards are evaluated when the program is loaded. A guard that holds up to this number can
/// hardly fail at a larger one, except for an upper bound.
const MOST_ROWS: i64 = 128;

/// Sizes of the other dimensions with which guards are evaluated.
const OTHER_SIZES: [i64; 8] = [1, 2, 3, 4, 6, 7, 32, 1000];

/// Largest number of parts of all guards about rows together, which bounds the time of their evaluation.
const MOST_PARTS: usize = 20_000;

impl Program {
    /// Checks the sizes of all inputs, in the order of [`Program::inputs`].
    ///
    /// # Errors
    /// A sentence that names the input and the dimension.
    pub fn check_sizes(&self, sizes: &[Vec<i64>]) -> Result<(), String> {
        let mut symbols: HashMap<&str, i64> = HashMap::new();
        for (input, own) in self.inputs.iter().zip(sizes) {
            if own.len() != input.dimensions.len() {
                let (name, rank) = (&input.name, input.dimensions.len());
                return Err(format!("input '{name}' has {} dimensions, and the model takes {rank}", own.len()));
            }
            for (symbol, size) in
                self.symbols_of(input.value).zip(own).filter_map(|(symbol, size)| Some((symbol?, size)))
            {
                symbols.entry(symbol).or_insert(*size);
            }
        }
        for (index, own) in sizes.iter().enumerate().take(self.inputs.len()) {
            self.check_input(index, own, &symbols)?;
        }
        self.check_ranges(&symbols)?;
        self.check_guards(sizes)
    }

    /// True if no number of rows is refused, up to the largest one. Otherwise the other requests of a batch would decide
    /// whether a request is refused.
    pub(crate) fn takes_any_rows(&self, symbol: &str) -> bool {
        let range = self.ranges.get(symbol);
        let is_bounded = range.and_then(|range| range.min_val).is_some_and(|least| least >= LEAST_BOUND);
        let most = range.and_then(|range| range.max_val).unwrap_or(MOST_ROWS).min(MOST_ROWS);
        let is_of_rows = |guard: &&Expression| guard.sizes().iter().any(|(_, axis)| *axis == 0);
        let guards: Vec<&Expression> = self.guards.iter().filter(is_of_rows).collect();
        let parts: usize = guards.iter().map(|guard| guard.parts()).sum();
        !is_bounded && parts <= MOST_PARTS && !guards.into_iter().any(|guard| self.depends_on_rows(guard, most))
    }

    /// True if a guard holds for some numbers of rows only, with other sizes that do not change. These are those of the file, or
    /// examples.
    fn depends_on_rows(&self, guard: &Expression, most: i64) -> bool {
        let fixed = |path: &[Step], axis: usize| match self.inputs.get(self.input_at(path)?)?.dimensions.get(axis)? {
            Dimension::Fixed(size) => Some(*size),
            Dimension::Variable => None,
        };
        (0..OTHER_SIZES.len()).any(|example| {
            let fails = |rows: i64| {
                let size = |expression: &Expression| match expression {
                    Expression::Size(_, 0) => Some(rows),
                    Expression::Size(path, axis) => {
                        fixed(path, *axis).or(Some(OTHER_SIZES[(example + axis) % OTHER_SIZES.len()]))
                    }
                    Expression::Number(_) | Expression::Symbol(_) | Expression::Call(..) => None,
                };
                guard.evaluate(&size) == Some(0)
            };
            (2..=most).any(|rows| fails(rows) != fails(1))
        })
    }

    /// Returns the symbol of each dimension that is just a symbol.
    fn symbols_of(&self, value: usize) -> impl Iterator<Item = Option<&str>> {
        let sizes = match &self.values[value].kind {
            ValueKind::Tensor(sizes) => sizes.as_slice(),
            ValueKind::Int(_) | ValueKind::Float | ValueKind::Bool => &[],
        };
        sizes.iter().map(|size| match size {
            Some(Expression::Symbol(name)) => Some(name.as_str()),
            Some(_) | None => None,
        })
    }

    fn check_input(&self, index: usize, own: &[i64], symbols: &HashMap<&str, i64>) -> Result<(), String> {
        let input = &self.inputs[index];
        let ValueKind::Tensor(expected) = &self.values[input.value].kind else { return Ok(()) };
        let lookup = |expression: &Expression| match expression {
            Expression::Symbol(name) => symbols.get(name.as_str()).copied(),
            Expression::Number(_) | Expression::Size(..) | Expression::Call(..) => None,
        };
        for (axis, (expected, size)) in expected.iter().zip(own).enumerate() {
            let wanted = match (&input.dimensions[axis], expected) {
                (Dimension::Fixed(wanted), _) => Some(*wanted),
                (Dimension::Variable, Some(expected)) => expected.evaluate(&lookup),
                (Dimension::Variable, None) => None,
            };
            if wanted.is_some_and(|wanted| wanted != *size) {
                let (name, wanted) = (&input.name, wanted.unwrap_or_default());
                return Err(format!("dimension {axis} of input '{name}' is {size}, and the model takes {wanted}"));
            }
        }
        Ok(())
    }

    fn check_ranges(&self, symbols: &HashMap<&str, i64>) -> Result<(), String> {
        for (name, range) in &self.ranges {
            let Some(&size) = symbols.get(name.as_str()) else { continue };
            let (least, most) = (range.min_val.filter(|least| *least >= LEAST_BOUND), range.max_val);
            if least.is_some_and(|least| size < least) || most.is_some_and(|most| size > most) {
                let least = range.min_val.unwrap_or(0);
                let most = most.map_or_else(|| "any size".to_owned(), |most| most.to_string());
                return Err(format!("{} is {size}, and the model takes {least} to {most}", self.first_with(name)));
            }
        }
        Ok(())
    }

    /// Returns the first dimension that has a symbol's size, in words.
    fn first_with(&self, symbol: &str) -> String {
        let axes =
            self.inputs.iter().flat_map(|input| self.symbols_of(input.value).enumerate().map(move |at| (input, at)));
        let mut found = axes.filter(|(_, (_, own))| *own == Some(symbol));
        match found.next() {
            Some((input, (axis, _))) => format!("dimension {axis} of input '{}'", input.name),
            None => format!("the size {symbol}"),
        }
    }

    /// Returns the index of the input that a guard is about. For the arguments of `*args` and `**kwargs`, a guard has the
    /// parameter's name first, which the paths of inputs do not have.
    pub(crate) fn input_at(&self, path: &[Step]) -> Option<usize> {
        let index = |path: &[Step]| self.inputs.iter().position(|input| input.path == *path);
        index(path).or_else(|| match path {
            [Step::Key(_), Step::Key(_), ..] => index(&path[1..]),
            [Step::Key(name), Step::Position(at), inner @ ..] => {
                index(&[&[Step::Key(format!("{name}_{at}"))], inner].concat())
            }
            _ => None,
        })
    }

    fn check_guards(&self, sizes: &[Vec<i64>]) -> Result<(), String> {
        let lookup = |expression: &Expression| match expression {
            Expression::Size(path, axis) => sizes.get(self.input_at(path)?)?.get(*axis).copied(),
            Expression::Number(_) | Expression::Symbol(_) | Expression::Call(..) => None,
        };
        let failed = self.guards.iter().find(|guard| guard.evaluate(&lookup) == Some(0));
        let Some((path, _)) = failed.and_then(|guard| guard.sizes().first().copied()) else { return Ok(()) };
        let index = self.input_at(path).unwrap_or_default();
        Err(format!(
            "input '{}' has the sizes {:?}, which the model was not exported for",
            self.inputs[index].name, sizes[index]
        ))
    }
}
