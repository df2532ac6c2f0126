//! The list of calls that an executor runs: each value has a slot, which is freed after its last use.

use std::collections::BTreeSet;

use crate::error::ExportedError;
use crate::graph::{Argument, Node, Operator, Program, Returned, ValueId};
use crate::scalars;

/// A program as a list of calls. Slots are numbered: first the weights, then the inputs, then all other values.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Number of slots of all kinds.
    pub slots: usize,
    /// The calls in the order of their execution.
    pub calls: Vec<Call>,
    /// Slots of the outputs, in their order.
    pub outputs: Vec<usize>,
    /// For each input, true if a call may write to it.
    pub written_inputs: Vec<bool>,
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
    /// Slots whose values no later call uses.
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

/// Operators whose result never shares memory with an operand. Other operators count as possible views.
const FRESH: [&str; 26] = [
    "aten::add",
    "aten::addmm",
    "aten::avg_pool2d",
    "aten::batch_norm",
    "aten::bmm",
    "aten::cat",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::convolution",
    "aten::div",
    "aten::embedding",
    "aten::gelu",
    "aten::layer_norm",
    "aten::linear",
    "aten::max_pool2d",
    "aten::mean",
    "aten::mm",
    "aten::mul",
    "aten::relu",
    "aten::sigmoid",
    "aten::silu",
    "aten::softmax",
    "aten::sub",
    "aten::sum",
    "aten::tanh",
];

impl Program {
    /// Returns the program as a list of calls.
    ///
    /// # Errors
    /// [`ExportedError::Unsupported`] for a function on numbers that has no operator, or if the program writes to its
    /// weights.
    pub fn plan(&self) -> Result<Plan, ExportedError> {
        let slots = self.slots();
        let called: Vec<&Node> = self.nodes.iter().filter(|node| !is_assertion(node)).collect();
        let mut calls = called.iter().map(|node| self.call(node, &slots)).collect::<Result<Vec<_>, _>>()?;
        let outputs: Vec<usize> = self.outputs.iter().map(|output| slots[output.value]).collect();
        add_frees(&mut calls, &outputs, self.weights.len());
        Ok(Plan { slots: self.values.len(), calls, outputs, written_inputs: self.written_inputs()? })
    }

    /// Returns the slot of each value.
    fn slots(&self) -> Vec<usize> {
        let first = self.weights.iter().map(|weight| weight.value).chain(self.inputs.iter().map(|input| input.value));
        let mut slots = vec![usize::MAX; self.values.len()];
        let mut next = 0;
        for value in first.chain(0..self.values.len()) {
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
            frees: Vec::new(),
        })
    }

    /// Returns the name of the running mean that a normalisation in training mode changes.
    fn statistics(&self, node: &Node) -> Option<&str> {
        let is_on = |name: &str| node.argument(name) == Some(&Argument::Bool(true));
        let changed = node.argument("running_mean").filter(|_| is_on("training") || is_on("use_input_stats"))?;
        let changed = changed.values();
        self.weights.iter().find(|weight| changed.contains(&weight.value)).map(|weight| weight.name.as_str())
    }

    /// Returns a flag for each input: true if a call may write to it.
    ///
    /// # Errors
    /// [`ExportedError::Unsupported`] if a call writes to a weight, by its name.
    fn written_inputs(&self) -> Result<Vec<bool>, ExportedError> {
        let mut sources: Vec<BTreeSet<ValueId>> = vec![BTreeSet::new(); self.values.len()];
        for value in self.inputs.iter().map(|input| input.value) {
            sources[value].insert(value);
        }
        let mut written = BTreeSet::new();
        for node in &self.nodes {
            let Operator::Registered { name, .. } = &node.operator else { continue };
            let target = node.arguments.first().map(|(_, argument)| argument.values()).unwrap_or_default();
            if let Some(statistics) = self.statistics(node) {
                return Err(writes_weight(node, statistics));
            }
            if writes(name) {
                if let Some(weight) = self.weights.iter().find(|weight| target.contains(&weight.value)) {
                    return Err(writes_weight(node, &weight.name));
                }
                written.extend(target.iter().flat_map(|value| sources[*value].clone()));
            }
            if FRESH.contains(&name.as_str()) {
                continue;
            }
            let operands = node.arguments.iter().flat_map(|(_, argument)| argument.values());
            let shared: BTreeSet<ValueId> = operands.flat_map(|value| sources[value].clone()).collect();
            for value in node.returned_values() {
                sources[value].extend(&shared);
            }
        }
        Ok(self.inputs.iter().map(|input| written.contains(&input.value)).collect())
    }
}

/// True for an operator whose name ends with an underscore, which by convention writes to its first operand.
fn writes(name: &str) -> bool {
    name.ends_with('_') && !name.ends_with("__")
}

fn is_assertion(node: &Node) -> bool {
    matches!(&node.operator, Operator::Registered { name, .. } if ASSERTIONS.contains(&name.as_str()))
}

fn unknown_function(node: &Node) -> ExportedError {
    ExportedError::Unsupported(format!("function {} at {} on numbers is unknown", node.operator, node.place))
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
    fn slots(&self) -> Vec<usize> {
        match self {
            Self::Slot(slot) => vec![*slot],
            Self::List(items) => items.iter().flat_map(Self::slots).collect(),
            Self::None | Self::Int(_) | Self::Float(_) | Self::Bool(_) | Self::Text(_) | Self::Device => Vec::new(),
        }
    }
}

/// Adds to each call the slots that no later call and no output uses. Weights are kept.
fn add_frees(calls: &mut [Call], outputs: &[usize], weights: usize) {
    let mut used: BTreeSet<usize> = outputs.iter().copied().collect();
    for call in calls.iter_mut().rev() {
        let operands = call.arguments.iter().flat_map(|(_, value)| value.slots());
        let results = call.outputs.iter().flat_map(|output| match output {
            PlanOutput::Slot(slot) => vec![*slot],
            PlanOutput::List(slots) => slots.clone(),
            PlanOutput::Dropped => Vec::new(),
        });
        let last: Vec<usize> = operands.chain(results).filter(|slot| *slot >= weights && used.insert(*slot)).collect();
        call.frees = last;
    }
}
