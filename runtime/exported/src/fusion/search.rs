//! Decides which calls each convolution absorbs.

use std::collections::{BTreeMap, BTreeSet};

use super::{Activation, Convolution, Fused, Geometry};
use crate::expression::Expression;
use crate::graph::{Argument, ElementType, Node, Operator, Program, Returned, ValueId, ValueKind, Weight};
use crate::memory::Memory;
use crate::operators::CHOICE;

const CONVOLUTIONS: [&str; 4] = ["aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::convolution"];

const NORMS: [&str; 3] = ["aten::batch_norm", "aten::native_batch_norm", "aten::_native_batch_norm_legit_no_training"];

/// Operators whose result depends on the strides of their operand. oneDNN stores its results channels-last.
const STRIDED: [&str; 8] = [
    "aten::_reshape_alias",
    "aten::as_strided",
    "aten::as_strided_",
    "aten::set_",
    "aten::resize_",
    "aten::stride",
    "aten::sym_stride",
    "aten::view_as_complex",
];

/// Operators that return a view and raise if the strides do not allow it.
pub(super) const VIEWS: [&str; 3] = ["aten::_unsafe_view", "aten::view", "aten::view_as"];

/// Operators that return a view if the strides allow it, and otherwise a copy.
const MAY_COPY: [&str; 5] = ["aten::contiguous", "aten::flatten", "aten::ravel", "aten::reshape", "aten::reshape_as"];

/// Float in single precision. The rounding of smaller types would change the answers, and oneDNN has no double.
const FLOAT: ElementType = 6;

/// Dimensions of an image's kernel.
const IMAGE: usize = 4;

/// Fewest dimensions of a kernel: channels of the result, channels of the operand, and those that it slides along.
const LEAST_RANK: usize = 3;

/// Fewest products of a row for which oneDNN is faster. A call of oneDNN takes some 25 µs however small the image is,
/// and libtorch's own convolution of a small image 5 to 10 µs. On a core that computes 30 products in a nanosecond,
/// both take equally long near this number.
const LEAST_PRODUCTS: i64 = 1_000_000;

/// Largest height or width that oneDNN is asked for.
const LARGEST_IMAGE: i64 = 1 << 16;

/// Facts about a program.
pub(super) struct Search<'a> {
    program: &'a Program,
    weights: BTreeMap<ValueId, &'a Weight>,
    memory: Memory,
    /// Number of uses of each value, and the last node that takes it.
    uses: Vec<(usize, usize)>,
    /// True if results may have other strides than the export recorded.
    any_strides: bool,
}

impl<'a> Search<'a> {
    pub(super) fn of(program: &'a Program) -> Self {
        let mut uses = vec![(0, usize::MAX); program.values.len()];
        for (index, node) in program.nodes.iter().enumerate() {
            node.operands().into_iter().for_each(|value| uses[value] = (uses[value].0 + 1, index));
        }
        program.outputs.iter().for_each(|output| uses[output.value].0 += 1);
        let memory = Memory::of(program);
        let any_strides = (0..program.nodes.len()).all(|index| takes_any_strides(program, index, &memory));
        let weights = program.weights.iter().map(|weight| (weight.value, weight)).collect();
        Self { program, weights, memory, uses, any_strides }
    }

    /// Returns the convolutions that change, and the nodes that they replace.
    pub(super) fn all(&self) -> (Vec<Fused<'a>>, BTreeSet<usize>) {
        let mut absorbed = BTreeSet::new();
        let found = (0..self.program.nodes.len()).filter_map(|index| self.fused(index, &mut absorbed)).collect();
        (found, absorbed)
    }

    /// Returns the convolution at this node with the calls that it absorbs, which are added to `absorbed`.
    fn fused(&self, index: usize, absorbed: &mut BTreeSet<usize>) -> Option<Fused<'a>> {
        let (convolution, result) = self.convolution(&self.program.nodes[index])?;
        let is_packed = convolution.geometry.is_some();
        let mut fused =
            Fused { place: index, convolution, norm: None, sum: None, activation: Activation::NONE, result };
        let mut parts = vec![index];
        let guards = &self.program.nodes[index].guards;
        let user = |value| self.user(value).filter(|(_, node)| node.guards == *guards);
        if let Some((next, norm)) = user(fused.result).filter(|(_, norm)| self.is_norm(norm, &fused)) {
            (fused.norm, fused.result) = (Some(norm), result_of(norm)?);
            parts.push(next);
        }
        if let Some((next, node)) = user(fused.result).filter(|(next, _)| is_packed && !absorbed.contains(next))
            && let Some(other) = self.summand(next, node, &fused)
        {
            (fused.sum, fused.result, fused.place) = (Some(other), result_of(node)?, next);
            parts.push(next);
        }
        if let Some((next, node)) = user(fused.result).filter(|_| is_packed)
            && let Some(activation) = activation(node, &fused)
        {
            (fused.activation, fused.result) = (activation, result_of(node)?);
            parts.push(next);
        }
        let changes = is_packed || fused.norm.is_some();
        absorbed.extend(parts.into_iter().filter(|_| changes));
        changes.then_some(fused)
    }

    /// Returns the only node that takes a value, if the value is used once.
    fn user(&self, value: ValueId) -> Option<(usize, &'a Node)> {
        let (uses, index) = self.uses[value];
        self.program.nodes.get(index).filter(|_| uses == 1).map(|node| (index, node))
    }

    /// Returns a convolution by weights of single precision, and its result.
    fn convolution(&self, node: &'a Node) -> Option<(Convolution<'a>, ValueId)> {
        let Operator::Registered { name, overload } = &node.operator else { return None };
        let is_transposed = node.argument("transposed").is_some_and(|it| *it != Argument::Bool(false));
        if !CONVOLUTIONS.contains(&name.as_str()) || is_transposed {
            return None;
        }
        let (input, kernel) = (value(node, "input")?, value(node, "weight")?);
        let weight = self.weights.get(&kernel).filter(|weight| weight.element_type == FLOAT)?;
        // A convolution of one example, without a batch, has its channels in another dimension.
        let is_kernel = weight.sizes.len() >= LEAST_RANK && !weight.sizes.contains(&0);
        if self.rank(input) != Some(weight.sizes.len()) || !is_kernel {
            return None;
        }
        let bias = self.of_channels(node, "bias", weight)?;
        let result = result_of(node)?;
        let is_image = self.any_strides && weight.sizes.len() == IMAGE && overload.is_empty();
        let geometry = if is_image { geometry(node) } else { None };
        let geometry = geometry.filter(|geometry| geometry.groups > 1 || self.is_large(weight, result));
        let row = self.row(input).filter(|row| fits(row, weight, geometry.as_ref()));
        Some((Convolution { node, input, kernel, bias, geometry, row }, result))
    }

    /// Returns the sizes of a tensor with one row, if all others are known.
    fn row(&self, value: ValueId) -> Option<Vec<i64>> {
        let ValueKind::Tensor(sizes) = &self.program.values[value].kind else { return None };
        let known = sizes.iter().skip(1).map(|size| match size {
            Some(Expression::Number(size)) => Some(*size),
            Some(_) | None => None,
        });
        std::iter::once(Some(1)).chain(known).collect()
    }

    /// True for a convolution that takes long for each row, as far as the sizes of the result are known.
    fn is_large(&self, kernel: &Weight, result: ValueId) -> bool {
        let ValueKind::Tensor(sizes) = &self.program.values[result].kind else { return false };
        let pixels = sizes.iter().skip(2).map(|size| match size {
            Some(Expression::Number(size)) => *size,
            Some(_) | None => LEAST_PRODUCTS,
        });
        kernel.sizes.iter().copied().chain(pixels).fold(1, i64::saturating_mul) >= LEAST_PRODUCTS
    }

    fn rank(&self, value: ValueId) -> Option<usize> {
        match &self.program.values[value].kind {
            ValueKind::Tensor(sizes) => Some(sizes.len()),
            ValueKind::Int(_) | ValueKind::Float | ValueKind::Bool => None,
        }
    }

    /// Returns a weight with an element for each channel of a kernel's result; `Some(None)` if the argument is missing.
    #[expect(clippy::option_option, reason = "a missing argument is no reason against the fusion, another value is")]
    fn of_channels(&self, node: &Node, name: &str, kernel: &Weight) -> Option<Option<ValueId>> {
        match node.argument(name) {
            None | Some(Argument::None) => Some(None),
            Some(Argument::Value(value)) => {
                let weight = self.weights.get(value)?;
                let fits = weight.sizes == kernel.sizes[..1] && weight.element_type == FLOAT;
                fits.then_some(Some(*value))
            }
            Some(_) => None,
        }
    }

    /// True for a normalisation of the convolution's result by constants. A kernel that several convolutions share stays
    /// as it is, because each would need a copy.
    fn is_norm(&self, norm: &Node, fused: &Fused<'_>) -> bool {
        let Operator::Registered { name, overload } = &norm.operator else { return false };
        let is_inference = name.ends_with("no_training") || norm.argument("training") == Some(&Argument::Bool(false));
        let kernel = self.weights[&fused.convolution.kernel];
        let others = norm.returned_values();
        let mut operands = norm.operands().into_iter();
        NORMS.contains(&name.as_str())
            && overload.is_empty()
            && is_inference
            && value(norm, "input") == Some(fused.result)
            && operands.all(|value| value == fused.result || self.weights.contains_key(&value))
            && self.uses[kernel.value].0 == 1
            && others.iter().skip(1).all(|value| self.uses[*value].0 == 0)
            && matches!(norm.argument("eps"), Some(Argument::Float(_)))
            && ["weight", "bias"].iter().all(|name| self.of_channels(norm, name, kernel).is_some())
            && ["running_mean", "running_var"]
                .iter()
                .all(|name| self.of_channels(norm, name, kernel).flatten().is_some())
    }

    /// Returns the tensor that a node adds to the convolution's result, if the convolution can be made in its place.
    fn summand(&self, index: usize, node: &Node, fused: &Fused<'_>) -> Option<ValueId> {
        let Operator::Registered { name, overload } = &node.operator else { return None };
        let is_sum = matches!(name.as_str(), "aten::add" | "aten::add_") && overload == "Tensor";
        let is_plain = matches!(node.argument("alpha"), None | Some(Argument::Int(1)));
        let (left, right) = (value(node, "self")?, value(node, "other")?);
        let other = if left == fused.result { right } else { left };
        // An operator in place writes to its first operand, which must be the result.
        let is_own = left == fused.result || name == "aten::add";
        let kind = |value: ValueId| &self.program.values[value];
        let is_same = kind(other).element_type == Some(FLOAT) && kind(other).kind == kind(fused.result).kind;
        let is_known = matches!(&kind(other).kind, ValueKind::Tensor(sizes) if sizes.iter().all(Option::is_some));
        let is_kept = !self.memory.is_written_by(fused.convolution.input, fused.place..index);
        (is_sum && is_plain && is_own && is_same && is_known && is_kept).then_some(other)
    }
}

/// True for an input of one row that a kernel takes.
fn fits(row: &[i64], kernel: &Weight, geometry: Option<&Geometry>) -> bool {
    let groups = geometry.map_or(1, |geometry| geometry.groups);
    let [_, channels, pixels @ ..] = row else { return false };
    Some(*channels) == kernel.sizes[1].checked_mul(groups)
        && pixels.iter().all(|size| (1..=LARGEST_IMAGE).contains(size))
}

/// Returns an activation of the convolution's result. After a sum, oneDNN's operator takes only `relu`.
fn activation(node: &Node, fused: &Fused<'_>) -> Option<Activation> {
    let Operator::Registered { name, overload } = &node.operator else { return None };
    let operand = node.arguments.first().map(|(_, argument)| argument.values());
    if !overload.is_empty() || operand.as_deref() != Some(&[fused.result]) {
        return None;
    }
    let number = |name: &str, default: f64| match node.argument(name) {
        None => Some(Argument::Float(default)),
        Some(Argument::Int(number)) => Some(Argument::Float(*number as f64)),
        Some(Argument::Float(number)) => Some(Argument::Float(*number)),
        Some(_) => None,
    };
    let (name, scalars) = match name.strip_suffix('_').unwrap_or(name) {
        "aten::relu" => ("relu", Vec::new()),
        "aten::silu" => ("swish", Vec::new()),
        "aten::sigmoid" => ("sigmoid", Vec::new()),
        "aten::hardswish" => ("hardswish", Vec::new()),
        "aten::relu6" => ("hardtanh", vec![Argument::Float(0.0), Argument::Float(6.0)]),
        "aten::hardtanh" => ("hardtanh", vec![number("min_val", -1.0)?, number("max_val", 1.0)?]),
        "aten::leaky_relu" => ("leaky_relu", vec![number("negative_slope", 0.01)?]),
        _ => return None,
    };
    (fused.sum.is_none() || name == "relu").then_some(Activation { name, scalars })
}

/// Returns the numbers of a convolution of images, if they are constants that it may have.
fn geometry(node: &Node) -> Option<Geometry> {
    let pair = |name: &str, default: i64| match node.argument(name) {
        None => Some(vec![default; IMAGE - 2]),
        Some(Argument::List(items)) => {
            let number = |item: &Argument| match item {
                Argument::Int(number) => Some(*number),
                _ => None,
            };
            let numbers: Vec<i64> = items.iter().map(number).collect::<Option<_>>()?;
            match numbers.as_slice() {
                [both] => Some(vec![*both; IMAGE - 2]),
                [_, _] => Some(numbers),
                _ => None,
            }
        }
        Some(_) => None,
    };
    let groups = match node.argument("groups") {
        None => 1,
        Some(Argument::Int(groups)) => *groups,
        Some(_) => return None,
    };
    let geometry =
        Geometry { padding: pair("padding", 0)?, stride: pair("stride", 1)?, dilation: pair("dilation", 1)?, groups };
    let steps = geometry.stride.iter().chain(&geometry.dilation).chain([&geometry.groups]);
    (steps.into_iter().all(|step| *step > 0) && geometry.padding.iter().all(|size| *size >= 0)).then_some(geometry)
}

/// True for a call whose result is the same for all strides of its operands, if views may become copies. Nothing may be
/// written through such a view later, and an operator of another library may read memory without regard to strides.
fn takes_any_strides(program: &Program, index: usize, memory: &Memory) -> bool {
    let node = &program.nodes[index];
    let Operator::Registered { name, overload } = &node.operator else { return true };
    let is_view = VIEWS.contains(&name.as_str());
    let of_elements = is_view && overload == "dtype";
    let is_written = |value: &ValueId| memory.is_written_by(*value, index + 1..usize::MAX);
    let is_lost = (is_view || MAY_COPY.contains(&name.as_str())) && node.returned_values().iter().any(is_written);
    (name.starts_with("aten::") || name == CHOICE) && !STRIDED.contains(&name.as_str()) && !of_elements && !is_lost
}

fn value(node: &Node, name: &str) -> Option<ValueId> {
    match node.argument(name) {
        Some(Argument::Value(value)) => Some(*value),
        _ => None,
    }
}

/// Returns the first value that a node returns.
fn result_of(node: &Node) -> Option<ValueId> {
    match node.outputs.first() {
        Some(Returned::Value(value)) => Some(*value),
        _ => None,
    }
}
