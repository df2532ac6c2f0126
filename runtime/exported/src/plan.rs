//! The list of calls that an executor runs: each value has a slot, which is freed after its last use.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::ExportedError;
use crate::fusion::Calls;
use crate::graph::{Argument, Node, Operator, Program, Returned, ValueId};
use crate::memory::{self, Memory};
use crate::scalars;
use crate::substitutes::write_zeros;

/// A program as a list of calls. Slots are numbered: first the constants, then the inputs, then all other values.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Number of slots of all kinds.
    pub slots: usize,
    /// Number of constants: the weights, and the results of the preparation.
    pub constants: usize,
    /// Calls on constants, which are made once when the program is loaded. They free the weights that no run uses.
    pub preparation: Vec<Call>,
    /// The calls of each run in the order of their execution.
    pub calls: Vec<Call>,
    /// Slots of the outputs, in their order.
    pub outputs: Vec<usize>,
    /// For each input, true if a call may write to it.
    pub written_inputs: Vec<bool>,
}

/// Kind of device that a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// Convolutions are fused with the calls on their results, for oneDNN.
    Cpu,
    /// The calls are those of the file.
    Gpu,
}

/// A call of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Qualified name, such as `aten::add`.
    pub name: String,
    /// Overload, such as `Tensor`; may be empty.
    pub overload: String,
    /// Position in the graph, for messages.
    pub place: String,
    /// Arguments by their names in the operator's schema, or by position if the name is empty.
    pub arguments: Vec<(String, PlanValue)>,
    /// Destinations of the returned values.
    pub outputs: Vec<PlanOutput>,
    /// Slots of truth values with the value at which the call is made, in their order. A slot may be empty if the value in
    /// an earlier one differs.
    pub guards: Vec<(usize, bool)>,
    /// Slots whose values no later call uses. They are freed whether the call is made or not.
    pub frees: Vec<usize>,
}

/// A value of an argument. The schema decides the type of numbers and lists.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanValue {
    /// No value, for an optional argument.
    None,
    /// The value in a slot.
    Slot(usize),
    /// An integer of 64 bits.
    Int(i64),
    /// A float in double precision.
    Float(f64),
    /// A truth value of Python.
    Bool(bool),
    /// A text, such as a mode.
    Text(String),
    /// The device of the instance.
    Device,
    /// A list, whose element type the schema decides.
    List(Vec<PlanValue>),
}

/// Destination of a returned value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanOutput {
    /// The value goes to a slot.
    Slot(usize),
    /// The elements of a list go to these slots.
    List(Vec<usize>),
    /// The value is dropped.
    Dropped,
}

/// Operators that only compare what the export has recorded.
const ASSERTIONS: [&str; 1] = ["aten::_assert_tensor_metadata"];

impl Program {
    /// Returns the program as a list of calls for a kind of device.
    ///
    /// # Errors
    /// [`ExportedError::Unsupported`] for a function on numbers that has no operator, or if the program writes to its
    /// weights.
    pub fn plan(&self, processor: Processor) -> Result<Plan, ExportedError> {
        let written_inputs = self.written_inputs()?;
        let Calls { preparation, mut nodes, prepared, values } = match processor {
            Processor::Cpu => self.fused(),
            Processor::Gpu => self.as_exported(),
        };
        nodes.iter_mut().for_each(write_zeros);
        if processor == Processor::Cpu {
            nodes.iter_mut().for_each(|node| self.substitute(node));
        }
        let constants = self.weights.len() + prepared;
        let slots = self.slots(prepared, values);
        let calls = |nodes: &[Node]| {
            let called = nodes.iter().filter(|node| !is_assertion(node));
            called.map(|node| self.call(node, &slots)).collect::<Result<Vec<_>, _>>()
        };
        let (mut preparation, mut calls) = (calls(&preparation)?, calls(&nodes)?);
        let outputs: Vec<usize> = self.outputs.iter().map(|output| slots[output.value]).collect();
        let mut used = outputs.iter().copied().collect();
        add_frees(&mut calls, &mut used, constants);
        add_frees(&mut preparation, &mut used, 0);
        Ok(Plan { slots: values, constants, preparation, calls, outputs, written_inputs })
    }

    /// Returns the slot of each value. After those of the graph come the results of the preparation, and then those of
    /// added calls.
    fn slots(&self, prepared: usize, values: usize) -> Vec<usize> {
        let weights = self.weights.iter().map(|weight| weight.value);
        let inputs = self.inputs.iter().map(|input| input.value);
        let prepared = self.values.len()..self.values.len() + prepared;
        let mut slots = vec![usize::MAX; values];
        let mut next = 0;
        for value in weights.chain(prepared).chain(inputs).chain(0..values) {
            if slots[value] == usize::MAX {
                slots[value] = next;
                next += 1;
            }
        }
        slots
    }

    fn call(&self, node: &Node, slots: &[usize]) -> Result<Call, ExportedError> {
        let (name, overload, positional) = match &node.operator {
            // The JIT's table has the operator under this name.
            Operator::Registered { name, overload } if name == "aten::sym_size" => {
                ("aten::size".to_owned(), overload.clone(), false)
            }
            Operator::Registered { name, overload } => (name.clone(), overload.clone(), false),
            Operator::Scalar(function) => {
                let found = scalars::operator(self, function, &node.arguments);
                let (name, overload) = found.ok_or_else(|| unknown_function(node))?;
                (name.to_owned(), overload.to_owned(), true)
            }
        };
        let argument = |(name, argument): &(String, Argument)| {
            let name = if positional { String::new() } else { name.clone() };
            (name, planned(argument, slots))
        };
        let output = |returned: &Returned| match returned {
            Returned::Value(value) => PlanOutput::Slot(slots[*value]),
            Returned::List(values) => PlanOutput::List(values.iter().map(|value| slots[*value]).collect()),
            Returned::Nothing => PlanOutput::Dropped,
        };
        Ok(Call {
            name,
            overload,
            place: node.place.clone(),
            arguments: node.arguments.iter().map(argument).collect(),
            outputs: node.outputs.iter().map(output).collect(),
            guards: node.guards.iter().map(|guard| (slots[guard.condition], guard.expected)).collect(),
            frees: Vec::new(),
        })
    }

    /// Returns the name of the running mean that a normalisation changes, unless it is off in a flag or by its name. The schema
    /// does not declare the change.
    fn statistics(&self, node: &Node) -> Option<&str> {
        let changed = node.argument("running_mean").map(Argument::values).filter(|values| !values.is_empty())?;
        let flag = node.argument("training").or_else(|| node.argument("use_input_stats"));
        let is_off = match (flag, &node.operator) {
            (Some(flag), _) => *flag == Argument::Bool(false),
            (None, Operator::Registered { name, .. }) => name.ends_with("_no_training"),
            (None, Operator::Scalar(_)) => true,
        };
        let weight = self.weights.iter().find(|weight| changed.contains(&weight.value));
        (!is_off).then(|| weight.map_or("running_mean", |weight| weight.name.as_str()))
    }

    /// Returns a flag for each input: true if a call may write to it.
    ///
    /// # Errors
    /// [`ExportedError::Unsupported`] if a call writes to a weight, by its name.
    fn written_inputs(&self) -> Result<Vec<bool>, ExportedError> {
        let weights: BTreeMap<ValueId, &str> =
            self.weights.iter().map(|weight| (weight.value, weight.name.as_str())).collect();
        let origins = memory::origins(self);
        for node in &self.nodes {
            let mut targets = memory::target(node).into_iter();
            let written = targets.find_map(|value| weights.get(&origins[value]).copied());
            if let Some(weight) = self.statistics(node).or(written) {
                return Err(writes_weight(node, weight));
            }
        }
        let memory = Memory::of(self);
        Ok(self.inputs.iter().map(|input| memory.is_written(input.value)).collect())
    }
}

/// True for an assertion without a result: a call that takes the result of another one keeps it.
fn is_assertion(node: &Node) -> bool {
    let is_named = matches!(&node.operator, Operator::Registered { name, .. } if ASSERTIONS.contains(&name.as_str()));
    is_named && node.returned_values().is_empty()
}

fn unknown_function(node: &Node) -> ExportedError {
    let (operator, place) = (&node.operator, &node.place);
    ExportedError::Unsupported(match operator {
        Operator::Scalar(name) if name.starts_with("torch._functorch.") => format!(
            "function {operator} at {place} is a part of torch.vmap: save the result of program.run_decompositions({{}})"
        ),
        Operator::Scalar(_) | Operator::Registered { .. } => {
            format!("function {operator} at {place} on numbers is unknown")
        }
    })
}

fn writes_weight(node: &Node, weight: &str) -> ExportedError {
    ExportedError::Unsupported(format!(
        "operator {} at {} changes '{weight}', which all requests share: call model.eval() before the export, and \
         return new state as an output",
        node.operator, node.place
    ))
}

fn planned(argument: &Argument, slots: &[usize]) -> PlanValue {
    match argument {
        Argument::None => PlanValue::None,
        Argument::Value(value) => PlanValue::Slot(slots[*value]),
        Argument::Int(number) => PlanValue::Int(*number),
        Argument::Float(number) => PlanValue::Float(*number),
        Argument::Bool(value) => PlanValue::Bool(*value),
        Argument::Text(text) => PlanValue::Text(text.clone()),
        Argument::Device => PlanValue::Device,
        Argument::List(items) => PlanValue::List(items.iter().map(|item| planned(item, slots)).collect()),
    }
}

impl PlanValue {
    pub(crate) fn slots(&self) -> Vec<usize> {
        match self {
            Self::Slot(slot) => vec![*slot],
            Self::List(items) => items.iter().flat_map(Self::slots).collect(),
            Self::None | Self::Int(_) | Self::Float(_) | Self::Bool(_) | Self::Text(_) | Self::Device => Vec::new(),
        }
    }
}

/// Adds to each call the slots from `first` on that no later call uses, and adds all slots of the calls to `used`.
fn add_frees(calls: &mut [Call], used: &mut BTreeSet<usize>, first: usize) {
    for call in calls.iter_mut().rev() {
        let operands = call.arguments.iter().flat_map(|(_, value)| value.slots());
        let results = call.outputs.iter().flat_map(|output| match output {
            PlanOutput::Slot(slot) => vec![*slot],
            PlanOutput::List(slots) => slots.clone(),
            PlanOutput::Dropped => Vec::new(),
        });
        let guards = call.guards.iter().map(|(slot, _)| *slot);
        call.frees =
            operands.chain(results).chain(guards).filter(|slot| used.insert(*slot) && *slot >= first).collect();
    }
}
