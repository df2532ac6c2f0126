//! Writes the calls of fused convolutions, and those that prepare their weights.

use std::collections::{BTreeMap, BTreeSet};

use super::search::VIEWS;
use super::{Activation, Calls, Convolution, Fused, Geometry};
use crate::graph::{Argument, Node, Operator, Program, Returned, ValueId};

/// Operators that compute statistics of an image. libtorch sums plain squares of an image whose channels are last, so
/// that most digits are lost if the mean is far from zero.
const STATISTICS: [&str; 5] = [
    "aten::_native_batch_norm_legit",
    "aten::batch_norm",
    "aten::group_norm",
    "aten::native_batch_norm",
    "aten::native_group_norm",
];

/// The calls as far as they are written.
pub(super) struct Rewrite<'a> {
    program: &'a Program,
    calls: Calls,
    /// Kernels in oneDNN's layout for the first convolution's images. Convolutions with the same numbers share them.
    packed: BTreeMap<(ValueId, Geometry), ValueId>,
}

impl<'a> Rewrite<'a> {
    pub(super) fn of(program: &'a Program) -> Self {
        let calls = Calls { preparation: Vec::new(), nodes: Vec::new(), prepared: 0, values: program.values.len() };
        Self { program, calls, packed: BTreeMap::new() }
    }

    /// Returns the calls with the fused convolutions in place of the nodes that they have absorbed.
    pub(super) fn calls(mut self, fused: &[Fused<'_>], absorbed: &BTreeSet<usize>) -> Calls {
        let by_place: BTreeMap<usize, &Fused<'_>> = fused.iter().map(|fused| (fused.place, fused)).collect();
        let is_packed = fused.iter().any(|fused| fused.convolution.geometry.is_some());
        for (index, node) in self.program.nodes.iter().enumerate() {
            let written = match by_place.get(&index) {
                Some(fused) => Node { guards: node.guards.clone(), ..self.fused(fused) },
                None if absorbed.contains(&index) => continue,
                None if is_packed => reshaping(node),
                None => node.clone(),
            };
            self.calls.nodes.push(written);
        }
        self.calls.prepared = self.calls.values - self.program.values.len();
        if is_packed { with_exact_statistics(self.calls) } else { self.calls }
    }

    fn fused(&mut self, fused: &Fused<'_>) -> Node {
        let mut convolution = fused.convolution.clone();
        if let Some(norm) = fused.norm {
            self.fold(&mut convolution, norm);
        }
        match convolution.geometry.clone() {
            Some(geometry) => self.pointwise(&convolution, &geometry, fused),
            None => plain(&convolution, fused.result),
        }
    }

    /// Applies a normalisation to the weights of a convolution, whose first dimension has the channels of the result:
    /// only the scale to the kernel, and the whole normalisation to the bias.
    fn fold(&mut self, convolution: &mut Convolution<'_>, norm: &Node) {
        let of = Argument::Value;
        let place = &norm.place;
        let mean = norm.argument("running_mean").cloned().unwrap_or(Argument::None);
        let zeros = self.prepared("aten::zeros_like", place, vec![("self", mean)]);
        let swapped = |tensor| vec![("self", of(tensor)), ("dim0", Argument::Int(0)), ("dim1", Argument::Int(1))];
        let kernel = self.prepared("aten::transpose.int", place, swapped(convolution.kernel));
        let kernel = self.normalised(norm, kernel, &[("bias", Argument::None), ("running_mean", of(zeros))]);
        convolution.kernel = self.prepared("aten::transpose.int", place, swapped(kernel));
        let row = |tensor| vec![("self", of(tensor)), ("dim", Argument::Int(0))];
        let bias = self.prepared("aten::unsqueeze", place, row(convolution.bias.unwrap_or(zeros)));
        let bias = self.normalised(norm, bias, &[]);
        convolution.bias = Some(self.prepared("aten::squeeze.dim", place, row(bias)));
    }

    /// Adds a call of the normalisation on another tensor, with the arguments `others` replaced. Returns the result.
    fn normalised(&mut self, norm: &Node, input: ValueId, others: &[(&str, Argument)]) -> ValueId {
        let mut node = norm.clone();
        set(&mut node, "input", Argument::Value(input));
        others.iter().for_each(|(name, argument)| set(&mut node, name, argument.clone()));
        node.outputs = vec![Returned::Value(self.calls.values)];
        node.guards = Vec::new();
        self.prepare(node)
    }

    /// Returns oneDNN's convolution with the sum and the activation.
    fn pointwise(&mut self, convolution: &Convolution<'_>, geometry: &Geometry, fused: &Fused<'_>) -> Node {
        let of = Argument::Value;
        let place = &convolution.node.place;
        let kernel = self.packed(convolution, geometry);
        let Activation { name, scalars } = fused.activation.clone();
        let mut arguments = vec![("X", of(convolution.input)), ("W", of(kernel))];
        arguments.push(("B", convolution.bias.map_or(Argument::None, of)));
        arguments.extend(numbers(geometry));
        let overload = match fused.sum {
            None => {
                arguments.extend([("attr", text(name)), ("scalars", Argument::List(scalars))]);
                ""
            }
            Some(other) => {
                arguments.extend([("other", of(other)), ("binary_attr", text("add"))]);
                let unary = if name == Activation::NONE.name { Argument::None } else { text(name) };
                arguments.extend([("unary_attr", unary), ("unary_scalars", Argument::List(scalars))]);
                ".binary"
            }
        };
        node(&format!("mkldnn::_convolution_pointwise{overload}"), place, arguments, fused.result)
    }

    /// Returns a kernel in oneDNN's layout. The layout depends on the sizes of the images. Without these, oneDNN
    /// assumes small images, and converts the weights of some kernels again in every run, which takes 25 ms.
    fn packed(&mut self, convolution: &Convolution<'_>, geometry: &Geometry) -> ValueId {
        let kernel = convolution.kernel;
        if let Some(packed) = self.packed.get(&(kernel, geometry.clone())) {
            return *packed;
        }
        let mut arguments = vec![("self", Argument::Value(kernel))];
        arguments.extend(numbers(geometry));
        arguments.extend(convolution.row.as_ref().map(|row| ("input_size", list(row))));
        let packed = self.prepared("mkldnn::_reorder_convolution_weight", &convolution.node.place, arguments);
        self.packed.insert((kernel, geometry.clone()), packed);
        packed
    }

    /// Adds a call to the preparation, and returns its result.
    fn prepared(&mut self, name: &str, place: &str, arguments: Vec<(&str, Argument)>) -> ValueId {
        let node = node(name, place, arguments, self.calls.values);
        self.prepare(node)
    }

    fn prepare(&mut self, node: Node) -> ValueId {
        self.calls.preparation.push(node);
        self.calls.values += 1;
        self.calls.values - 1
    }
}

/// Lets each operator that computes statistics of an image take a copy with the channels first. An image that has them
/// first already is not copied.
fn with_exact_statistics(mut calls: Calls) -> Calls {
    for mut written in std::mem::take(&mut calls.nodes) {
        if let Some(image) = image_of_statistics(&written) {
            let copy = node("aten::contiguous", &written.place, vec![("self", image)], calls.values);
            calls.nodes.push(Node { guards: written.guards.clone(), ..copy });
            set(&mut written, "input", Argument::Value(calls.values));
            calls.values += 1;
        }
        calls.nodes.push(written);
    }
    calls
}

/// Returns the tensor of which an operator computes statistics. A normalisation by constants computes none.
fn image_of_statistics(node: &Node) -> Option<Argument> {
    let Operator::Registered { name, .. } = &node.operator else { return None };
    let is_by_constants = node.argument("training") == Some(&Argument::Bool(false));
    let image = node.argument("input").filter(|_| STATISTICS.contains(&name.as_str()) && !is_by_constants);
    image.filter(|image| matches!(image, Argument::Value(_))).cloned()
}

/// Returns libtorch's own convolution with the weights and the result of the fused one.
fn plain(convolution: &Convolution<'_>, result: ValueId) -> Node {
    let mut node = convolution.node.clone();
    set(&mut node, "weight", Argument::Value(convolution.kernel));
    set(&mut node, "bias", convolution.bias.map_or(Argument::None, Argument::Value));
    node.outputs = vec![Returned::Value(result)];
    node
}

/// Returns the node with a view replaced by the operator that copies where the strides allow no view.
fn reshaping(node: &Node) -> Node {
    let mut node = node.clone();
    if let Operator::Registered { name, .. } = &mut node.operator
        && VIEWS.contains(&name.as_str())
    {
        let of_sizes = if name == "aten::view_as" { "aten::reshape_as" } else { "aten::reshape" };
        of_sizes.clone_into(name);
        let sizes = node.arguments.iter_mut().find(|(name, _)| name == "size");
        sizes.into_iter().for_each(|(name, _)| "shape".clone_into(name));
    }
    node
}

fn numbers(geometry: &Geometry) -> [(&'static str, Argument); 4] {
    [
        ("padding", list(&geometry.padding)),
        ("stride", list(&geometry.stride)),
        ("dilation", list(&geometry.dilation)),
        ("groups", Argument::Int(geometry.groups)),
    ]
}

fn list(numbers: &[i64]) -> Argument {
    Argument::List(numbers.iter().map(|number| Argument::Int(*number)).collect())
}

fn text(text: &str) -> Argument {
    Argument::Text(text.to_owned())
}

/// Returns a node by the qualified name of its operator, with the overload after a dot.
fn node(operator: &str, place: &str, arguments: Vec<(&str, Argument)>, result: ValueId) -> Node {
    let (name, overload) = operator.split_once('.').unwrap_or((operator, ""));
    Node {
        operator: Operator::Registered { name: name.to_owned(), overload: overload.to_owned() },
        place: place.to_owned(),
        arguments: arguments.into_iter().map(|(name, argument)| (name.to_owned(), argument)).collect(),
        outputs: vec![Returned::Value(result)],
        guards: Vec::new(),
    }
}

/// Replaces an argument, or adds it if it is missing.
fn set(node: &mut Node, name: &str, value: Argument) {
    match node.arguments.iter_mut().find(|(own, _)| own == name) {
        Some((_, argument)) => *argument = value,
        None => node.arguments.push((name.to_owned(), value)),
    }
}
