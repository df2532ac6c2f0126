//! Memory that values may share, and the calls that write to it.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::graph::{Node, Operator, Program, ValueId};

/// Operators whose result never shares memory with an operand. Other operators count as possible views.
const FRESH: [&str; 34] = [
    "aten::_native_batch_norm_legit_no_training",
    "aten::adaptive_avg_pool2d",
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
    "aten::hardsigmoid",
    "aten::hardswish",
    "aten::hardtanh",
    "aten::layer_norm",
    "aten::leaky_relu",
    "aten::linear",
    "aten::max_pool2d",
    "aten::mean",
    "aten::mm",
    "aten::mul",
    "aten::relu",
    "aten::relu6",
    "aten::sigmoid",
    "aten::silu",
    "aten::softmax",
    "aten::sub",
    "aten::sum",
    "aten::tanh",
    "aten::upsample_nearest2d",
];

/// Operators whose result always shares the memory of their first operand.
const VIEWS: [&str; 26] = [
    "aten::alias",
    "aten::as_strided",
    "aten::chunk",
    "aten::detach",
    "aten::diagonal",
    "aten::expand",
    "aten::expand_as",
    "aten::mT",
    "aten::movedim",
    "aten::narrow",
    "aten::numpy_T",
    "aten::permute",
    "aten::select",
    "aten::slice",
    "aten::split",
    "aten::split_with_sizes",
    "aten::squeeze",
    "aten::t",
    "aten::transpose",
    "aten::unbind",
    "aten::unflatten",
    "aten::unfold",
    "aten::unsqueeze",
    "aten::view",
    "aten::view_as",
    "aten::view_as_real",
];

/// Returns, for each value, the value of which it certainly is a view, or the value itself.
pub(crate) fn origins(program: &Program) -> Vec<ValueId> {
    let mut origins: Vec<ValueId> = (0..program.values.len()).collect();
    for node in &program.nodes {
        let Operator::Registered { name, .. } = &node.operator else { continue };
        let Some(first) = node.arguments.first().and_then(|(_, argument)| argument.values().first().copied()) else {
            continue;
        };
        if VIEWS.contains(&name.as_str()) || writes(name) {
            node.returned_values().into_iter().for_each(|value| origins[value] = origins[first]);
        }
    }
    origins
}

/// Groups of values that may share memory.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The group of each value, by one of its values.
    groups: Vec<ValueId>,
    /// The nodes that write to each group, in their order.
    writes: BTreeMap<ValueId, Vec<usize>>,
}

impl Memory {
    /// Finds the groups of a program's values.
    pub(crate) fn of(program: &Program) -> Self {
        let mut parents = Parents((0..program.values.len()).collect());
        for node in &program.nodes {
            // The result of an operator in place is the operand that it writes to.
            let shared = match target(node) {
                target if !target.is_empty() => target,
                _ if is_fresh(node) => continue,
                _ => node.operands(),
            };
            for value in node.returned_values() {
                shared.iter().for_each(|operand| parents.join(value, *operand));
            }
        }
        let groups: Vec<ValueId> = (0..program.values.len()).map(|value| parents.root(value)).collect();
        let mut writes: BTreeMap<ValueId, Vec<usize>> = BTreeMap::new();
        for (index, node) in program.nodes.iter().enumerate() {
            target(node).into_iter().for_each(|value| writes.entry(groups[value]).or_default().push(index));
        }
        Self { groups, writes }
    }

    /// Returns true if a call may write to the memory of a value.
    pub(crate) fn is_written(&self, value: ValueId) -> bool {
        self.writes.contains_key(&self.groups[value])
    }

    /// Returns true if one of these nodes may write to the memory of a value.
    pub(crate) fn is_written_by(&self, value: ValueId, nodes: Range<usize>) -> bool {
        let Some(writes) = self.writes.get(&self.groups[value]) else { return false };
        let next = writes.partition_point(|node| *node < nodes.start);
        writes.get(next).is_some_and(|node| *node < nodes.end)
    }
}

/// A forest of values: those in one tree may share memory. A root is its own parent.
struct Parents(Vec<ValueId>);

impl Parents {
    /// Returns the root of a value's tree, and shortens the way to it.
    fn root(&mut self, mut value: ValueId) -> ValueId {
        while self.0[value] != value {
            self.0[value] = self.0[self.0[value]];
            value = self.0[value];
        }
        value
    }

    fn join(&mut self, one: ValueId, other: ValueId) {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one] = other;
    }
}

/// Returns the values that an operator writes to: its first operand, by convention, if its name ends with an underscore.
pub(crate) fn target(node: &Node) -> Vec<ValueId> {
    match &node.operator {
        Operator::Registered { name, .. } if writes(name) => {
            node.arguments.first().map(|(_, argument)| argument.values()).unwrap_or_default()
        }
        Operator::Registered { .. } | Operator::Scalar(_) => Vec::new(),
    }
}

/// True for an operator whose name ends with an underscore, which by convention writes to its first operand.
fn writes(name: &str) -> bool {
    name.ends_with('_') && !name.ends_with("__")
}

fn is_fresh(node: &Node) -> bool {
    match &node.operator {
        Operator::Registered { name, .. } => FRESH.contains(&name.as_str()),
        Operator::Scalar(_) => true,
    }
}
