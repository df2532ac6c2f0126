//! Proof that the rows of a batch are independent: the dimension of the rows is followed through the graph.
//!
//! One dimension of a tensor holds the rows. A reshape may have merged it with other dimensions: then its size is
//! `outer * rows * inner`, and the element at `(o * rows + row) * inner + i` belongs to `row`. Without a merge, `outer`
//! and `inner` are 1. Further reshapes change these numbers by the same arithmetic. Each operator must compute each row
//! of its result from that row of its operands alone.

mod arguments;
mod branches;
mod dimensions;
mod gathers;
mod pairs;
mod products;
mod rules;
mod writes;

use std::collections::{HashMap, HashSet};

use self::arguments::plain;
use self::writes::SharedMemory;
use crate::expression::Expression;
use crate::graph::{Argument, Dimension, Node, Operator, OutputKind, Program, Returned, ValueId, ValueKind};
use crate::monomial::Monomial;
use crate::operators::{Rule, rule, writes_result};

/// The dimension of the rows: the first one of every input, whose size is one symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Largest number of rows; `None` if there is no limit.
    pub most: Option<usize>,
    pub(crate) symbol: String,
}

/// Result of the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Each row of the outputs depends on the same row of the inputs alone.
    Proven,
    /// A row depends on other rows, or an output has no rows. The text is the operator with its position, or the
    /// output.
    Coupled(String),
    /// The table cannot decide an operator, or the file records the sizes of an output wrongly, and no other operator
    /// couples the rows. The text is the first such operator with its position, or the output.
    Unknown(String),
}

/// Position of the rows in a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rows {
    dim: usize,
    outer: Monomial,
    inner: Monomial,
}

/// Knowledge about a value during the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The same for every batch.
    Constant,
    /// A tensor whose elements are all equal. One of its dimensions may have the size of the batch.
    Uniform,
    Rows(Rows),
    /// A number that depends on the size of the batch.
    BatchSize,
    /// A tensor that contains along a dimension the number of each row, from 0 on, times a step.
    RowNumbers {
        dim: usize,
        step: i64,
    },
}

/// Parts of the names of operators whose results differ between calls with the same operands.
const RANDOM: [&str; 14] = [
    "bernoulli",
    "binomial",
    "cauchy",
    "dirichlet",
    "dropout",
    "exponential",
    "geometric",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rrelu",
    "standard_gamma",
    "uniform",
];

/// The reason why a step of the proof fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Coupled,
    Unknown,
}

type Proven<T> = Result<T, Stop>;

impl Program {
    /// Returns the dimension of the rows; `None` if the inputs have no such dimension, or the program refuses some numbers of
    /// rows.
    #[must_use]
    pub fn batch(&self) -> Option<Batch> {
        let first = |value: ValueId| match &self.values[value].kind {
            ValueKind::Tensor(sizes) => match sizes.first() {
                Some(Some(Expression::Symbol(name))) => Some(name.clone()),
                Some(_) | None => None,
            },
            ValueKind::Int(_) | ValueKind::Float | ValueKind::Bool => None,
        };
        let symbol = first(self.inputs.first()?.value)?;
        let elsewhere = |value: ValueId| match &self.values[value].kind {
            ValueKind::Tensor(sizes) => sizes.iter().skip(1).flatten().any(|size| size.has(&symbol)),
            ValueKind::Int(_) | ValueKind::Float | ValueKind::Bool => true,
        };
        let mut inputs = self.inputs.iter().map(|input| input.value);
        if !inputs.all(|value| first(value).as_ref() == Some(&symbol) && !elsewhere(value)) {
            return None;
        }
        if !self.takes_any_rows(&symbol) {
            return None;
        }
        let most = self.ranges.get(&symbol).and_then(|range| range.max_val);
        Some(Batch { most: most.and_then(|most| usize::try_from(most).ok()), symbol })
    }

    /// Decides whether the rows of a batch are independent.
    #[must_use]
    pub fn verdict(&self, batch: &Batch) -> Verdict {
        let mut proof = Proof::of(self, batch);
        for input in &self.inputs {
            let rows = Rows { dim: 0, outer: Monomial::one(), inner: Monomial::one() };
            proof.states.insert(input.value, State::Rows(rows));
        }
        let mut first_unknown = None;
        for node in &self.nodes {
            match proof.node(node) {
                Ok(()) => {}
                Err(Stop::Coupled) => return Verdict::Coupled(named(node)),
                Err(Stop::Unknown) => {
                    first_unknown.get_or_insert(node);
                    proof.assume(node);
                }
            }
        }
        first_unknown.map_or_else(|| proof.outputs(), |node| self.undecided(node))
    }

    /// Returns the verdict if a node cannot be decided. In a program with `torch.cond` that is [`Verdict::Coupled`], so
    /// that no trial runs are made: if all rows of a trial took the same branch, the trial would not show that a
    /// batch's rows decide together which branch runs.
    fn undecided(&self, node: &Node) -> Verdict {
        let choice = self.nodes.iter().find(|node| branches::is_choice(node));
        choice.map_or_else(|| Verdict::Unknown(named(node)), |choice| Verdict::Coupled(named(choice)))
    }
}

fn named(node: &Node) -> String {
    format!("operator {} at {}", node.operator, node.place)
}

struct Proof<'a> {
    program: &'a Program,
    symbol: &'a str,
    states: HashMap<ValueId, State>,
    /// Values without a known state, such as those whose recorded sizes contradict the operator. An operator that takes
    /// one cannot be decided.
    undecided: HashSet<ValueId>,
    shared: SharedMemory,
}

impl<'a> Proof<'a> {
    fn of(program: &'a Program, batch: &'a Batch) -> Self {
        let (states, undecided) = (HashMap::new(), HashSet::new());
        Self { program, symbol: &batch.symbol, states, undecided, shared: SharedMemory::of(program) }
    }
}

impl Proof<'_> {
    fn outputs(&self) -> Verdict {
        for output in &self.program.outputs {
            if self.undecided.contains(&output.value) {
                return Verdict::Unknown(format!("output '{}'", output.path));
            }
            let is_row = match (&output.kind, self.state(output.value)) {
                (OutputKind::Tensor(_, dimensions), State::Rows(rows)) => {
                    rows == plain(0) && dimensions.first() == Some(&Dimension::Variable)
                }
                (OutputKind::Tensor(..), State::Uniform) => self
                    .sizes(output.value)
                    .is_ok_and(|sizes| sizes.first().is_some_and(|first| *first == Monomial::symbol(self.symbol))),
                (OutputKind::Tensor(..) | OutputKind::Number(_), _) => false,
            };
            if !is_row {
                return Verdict::Coupled(format!("output '{}', which has no rows", output.path));
            }
        }
        Verdict::Proven
    }

    /// Returns the state of a value. A value without a recorded state is computed from constants alone.
    fn state(&self, value: ValueId) -> State {
        self.states.get(&value).cloned().unwrap_or(State::Constant)
    }

    /// Returns the state of a value. A tensor of equal elements counts as rows if just one dimension has the size
    /// of the batch.
    fn settled(&self, value: ValueId) -> State {
        let state = self.state(value);
        let (State::Uniform, Ok(sizes)) = (&state, self.sizes(value)) else { return state };
        let dims: Vec<usize> = (0..sizes.len()).filter(|dim| sizes[*dim].has(self.symbol)).collect();
        match dims.as_slice() {
            [] => State::Constant,
            [dim] if sizes[*dim] == Monomial::symbol(self.symbol) => State::Rows(plain(*dim)),
            [_, ..] => state,
        }
    }

    fn sizes(&self, value: ValueId) -> Proven<Vec<Monomial>> {
        let ValueKind::Tensor(sizes) = &self.program.values[value].kind else { return Err(Stop::Unknown) };
        let size = |size: &Option<Expression>| size.as_ref().and_then(Monomial::of).ok_or(Stop::Unknown);
        sizes.iter().map(size).collect()
    }

    fn rank(&self, value: ValueId) -> Proven<usize> {
        match &self.program.values[value].kind {
            ValueKind::Tensor(sizes) => Ok(sizes.len()),
            ValueKind::Int(_) | ValueKind::Float | ValueKind::Bool => Err(Stop::Unknown),
        }
    }

    fn node(&mut self, node: &Node) -> Proven<()> {
        let operands = node.operands();
        if operands.iter().any(|value| self.undecided.contains(value)) {
            return Err(Stop::Unknown);
        }
        let Operator::Registered { name, overload } = &node.operator else {
            return self.scalar(node);
        };
        if writes_result(overload) {
            return Err(Stop::Unknown);
        }
        if let Some(proven) = self.branched(node, name) {
            return proven;
        }
        let rule = name.strip_prefix("aten::").and_then(rule);
        let states: Vec<State> = operands.iter().map(|value| self.state(*value)).collect();
        if states.iter().all(|state| *state == State::Constant) && rule != Some(Rule::Size) {
            return self.of_constants(node, name);
        }
        let rule = rule.ok_or(Stop::Unknown)?;
        let returned = node.returned_values();
        let Some(&result) = returned.first() else {
            return if rule == Rule::Assertion { Ok(()) } else { Err(Stop::Unknown) };
        };
        if rule == Rule::Size {
            return self.scalar(node);
        }
        let state = self.apply(node, rule, result)?;
        self.finish(node, rule, state)
    }

    /// Stores what is assumed of the results of an operator that cannot be decided, so that a later operator that
    /// couples the rows is still found: a result of rows has them in the first dimension that has their number. The
    /// results of other operands stay undecided.
    fn assume(&mut self, node: &Node) {
        let takes_rows = node.operands().iter().any(|value| matches!(self.state(*value), State::Rows(_)));
        let symbol = Monomial::symbol(self.symbol);
        for value in node.returned_values() {
            let sizes = self.sizes(value).unwrap_or_default();
            let rows = sizes.iter().position(|size| *size == symbol).map(|dim| State::Rows(plain(dim)));
            match rows.filter(|rows| takes_rows && self.check_size(value, rows).is_ok()) {
                Some(rows) => {
                    self.undecided.remove(&value);
                    self.states.insert(value, rows);
                }
                None => drop(self.undecided.insert(value)),
            }
        }
    }

    /// Handles operators whose operands are the same for every batch: the result is the same too, unless it is random.
    fn of_constants(&self, node: &Node, name: &str) -> Proven<()> {
        let random = RANDOM.iter().any(|part| name.contains(part));
        let is_off = ["train", "training"].iter().any(|flag| node.argument(flag) == Some(&Argument::Bool(false)));
        let registered = name.starts_with("aten::");
        let has_unbacked = node.returned_values().iter().any(|value| self.sizes(*value).is_err());
        if (random && !is_off) || !registered || has_unbacked { Err(Stop::Unknown) } else { Ok(()) }
    }

    /// Handles numbers: they depend on the size of the batch if their expression does.
    fn scalar(&mut self, node: &Node) -> Proven<()> {
        for value in node.returned_values() {
            let depends = match &self.program.values[value].kind {
                ValueKind::Int(Some(expression)) => expression.has(self.symbol),
                ValueKind::Int(None) | ValueKind::Float | ValueKind::Bool => {
                    node.operands().into_iter().any(|value| self.state(value) != State::Constant)
                }
                ValueKind::Tensor(_) => return Err(Stop::Unknown),
            };
            self.states.insert(value, if depends { State::BatchSize } else { State::Constant });
        }
        Ok(())
    }

    /// Stores the state of the results.
    fn finish(&mut self, node: &Node, rule: Rule, state: State) -> Proven<()> {
        for (index, returned) in node.outputs.iter().enumerate() {
            let values = match returned {
                Returned::Value(value) => vec![*value],
                Returned::List(values) => values.clone(),
                Returned::Nothing => continue,
            };
            // The first dimension of a recurrent layer's state is the number of layers.
            let state = match (&state, rule) {
                (State::Rows(rows), Rule::Recurrent) if index > 0 => State::Rows(Rows { dim: 1, ..rows.clone() }),
                _ => state.clone(),
            };
            // The other results of `embedding_bag` contain the numbers of the rows.
            if rule == Rule::EmbeddingBag && index > 0 {
                self.undecided.extend(values);
                continue;
            }
            for value in values {
                match self.check_size(value, &state) {
                    Ok(()) => drop(self.states.insert(value, state.clone())),
                    // The export records the state of an LSTM with another rank than it has.
                    Err(_) if rule == Rule::Recurrent && index > 0 => drop(self.undecided.insert(value)),
                    Err(stop) => return Err(stop),
                }
            }
        }
        node.returned_values().into_iter().for_each(|value| self.note_memory(node, rule, value));
        self.check_in_place(node, &state)
    }

    /// Checks that the dimension of the rows has the size that the state says, as the file records it.
    fn check_size(&self, value: ValueId, state: &State) -> Proven<()> {
        let State::Rows(rows) = state else { return Ok(()) };
        let sizes = self.sizes(value)?;
        let own = sizes.get(rows.dim).ok_or(Stop::Unknown)?;
        let expected = rows.outer.times(&Monomial::symbol(self.symbol)).and_then(|size| size.times(&rows.inner));
        // A size that depends on the elements depends on those of all rows.
        let depends = |size: &Monomial| size.has(self.symbol) || size.is_unbacked();
        let elsewhere = sizes.iter().enumerate().any(|(dim, size)| dim != rows.dim && depends(size));
        if Some(own) == expected.as_ref() && !elsewhere { Ok(()) } else { Err(Stop::Unknown) }
    }
}

#[cfg(test)]
mod tests;
