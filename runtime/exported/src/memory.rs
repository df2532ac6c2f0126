//! Memory that values may share, and the calls that write to it.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::graph::{Node, Operator, Program, ValueId, ValueKind};
use crate::operators::{Rule, rule, writes_result};

/// Operators by element that may return their first operand itself, or a view of it.
const MAY_RETURN_OPERAND: [&str; 13] = [
    "_conj",
    "alias",
    "conj",
    "contiguous",
    "detach",
    "imag",
    "lift_fresh",
    "positive",
    "real",
    "resolve_conj",
    "resolve_neg",
    "to",
    "type_as",
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
            let shared = shared(program, node);
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

    /// Returns the group of a value, by one of its values.
    pub(crate) fn group(&self, value: ValueId) -> ValueId {
        self.groups[value]
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

/// Returns the tensors whose memory the results of a node may share. The result of an operator in place is the operand
/// that it writes to. The results of an operator without a rule may be views of any operand.
pub(crate) fn shared(program: &Program, node: &Node) -> Vec<ValueId> {
    let targets = target(node);
    let Operator::Registered { name, overload } = &node.operator else { return targets };
    if !targets.is_empty() {
        return targets;
    }
    let is_tensor = |value: &ValueId| matches!(program.values[*value].kind, ValueKind::Tensor(_));
    let mut tensors: Vec<ValueId> = node.operands().into_iter().filter(is_tensor).collect();
    let known = name.strip_prefix("aten::").filter(|name| *name != "copy" && !writes_result(overload));
    match known.and_then(|name| Some((name, rule(name)?))) {
        None => tensors,
        Some((name, rule)) if is_fresh(name, rule, tensors.len()) => Vec::new(),
        Some(_) => {
            tensors.truncate(1);
            tensors
        }
    }
}

/// True if the result of an operator of `aten` never shares memory with its operands, of which `count` are tensors.
fn is_fresh(name: &str, rule: Rule, count: usize) -> bool {
    match rule {
        Rule::Elementwise => !MAY_RETURN_OPERAND.contains(&name),
        Rule::Einsum => count > 1,
        Rule::Last(_) => !matches!(name, "view_as_real" | "view_as_complex"),
        Rule::Over(_)
        | Rule::LastOf(_)
        | Rule::Linear
        | Rule::Matmul
        | Rule::Addmm
        | Rule::Attention
        | Rule::BatchNorm
        | Rule::Embedding
        | Rule::EmbeddingBag
        | Rule::Index
        | Rule::Aligned
        | Rule::IndexSelect
        | Rule::IndexWrite
        | Rule::Arange
        | Rule::Distance
        | Rule::Paired(_)
        | Rule::Samples
        | Rule::Cell
        | Rule::Convolution
        | Rule::Loss
        | Rule::Whole
        | Rule::Cat
        | Rule::Stack
        | Rule::Recurrent
        | Rule::Repeat
        | Rule::Filled
        | Rule::FilledLike => true,
        Rule::Spatial(_) => !name.starts_with("pixel_"),
        Rule::Transform(_)
        | Rule::Diagonal
        | Rule::Reshape
        | Rule::Transpose
        | Rule::TransposeLast
        | Rule::Move
        | Rule::Permute
        | Rule::Unsqueeze
        | Rule::Squeeze
        | Rule::Expand
        | Rule::Along(_)
        | Rule::Select
        | Rule::Unbind
        | Rule::Pad
        | Rule::Dropout
        | Rule::Size
        | Rule::Assertion => false,
    }
}
