//! Fusions of random programs. They are evaluated on numbers: each tensor is a single number, whatever sizes it has.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::expression::Expression;
use crate::graph::{ElementType, Guard, Operator, Output, OutputKind, Payload, Returned, Value, ValueKind, Weight};

const FLOAT: ElementType = 6;
const HALF: ElementType = 5;

/// Channels of the tensors, with which a convolution of one pixel is large enough for oneDNN.
const CHANNELS: i64 = 1000;

/// Values of each program: the input, two kernels, then bias, scale, shift, mean and variance.
const X: ValueId = 0;
const KERNELS: [ValueId; 2] = [1, 2];
const BIAS: ValueId = 3;
const CONSTANTS: std::ops::Range<ValueId> = 1..8;

fn of(value: ValueId) -> Argument {
    Argument::Value(value)
}

fn weight(value: ValueId, element_type: ElementType) -> Weight {
    let payload = Payload { entry: String::new(), archive: None, bytes: 0, tensor: None };
    let sizes = if KERNELS.contains(&value) { vec![CHANNELS, CHANNELS, 1, 1] } else { vec![CHANNELS] };
    Weight { name: format!("v{value}"), element_type, strides: vec![1; sizes.len()], sizes, offset: 0, payload, value }
}

fn registered(operator: &str, arguments: &[(&str, Argument)], result: ValueId) -> Node {
    let (name, overload) = operator.split_once('.').unwrap_or((operator, ""));
    Node {
        operator: Operator::Registered { name: format!("aten::{name}"), overload: overload.to_owned() },
        place: format!("'{name}'"),
        arguments: arguments.iter().map(|(name, argument)| ((*name).to_owned(), argument.clone())).collect(),
        outputs: vec![Returned::Value(result)],
        guards: Vec::new(),
    }
}

fn convolution(input: ValueId, kernel: ValueId, bias: Argument, result: ValueId) -> Node {
    registered("conv2d", &[("input", of(input)), ("weight", of(kernel)), ("bias", bias)], result)
}

fn norm(input: ValueId, result: ValueId) -> Node {
    let arguments = [
        ("input", of(input)),
        ("weight", of(4)),
        ("bias", of(5)),
        ("running_mean", of(6)),
        ("running_var", of(7)),
        ("training", Argument::Bool(false)),
        ("eps", Argument::Float(0.25)),
    ];
    registered("batch_norm", &arguments, result)
}

fn sum(name: &str, left: ValueId, right: ValueId, result: ValueId) -> Node {
    registered(&format!("{name}.Tensor"), &[("self", of(left)), ("other", of(right))], result)
}

fn unary(name: &str, operand: ValueId, result: ValueId) -> Node {
    registered(name, &[("self", of(operand))], result)
}

/// Returns a program of these calls on tensors of four dimensions.
fn program(nodes: Vec<Node>, outputs: &[ValueId], element_type: ElementType) -> Program {
    let count = nodes.iter().flat_map(Node::returned_values).max().unwrap_or(0).max(CONSTANTS.end) + 1;
    let kind = ValueKind::Tensor(vec![Some(Expression::Number(1)); 4]);
    let value = |at: ValueId| Value { name: format!("v{at}"), kind: kind.clone(), element_type: Some(element_type) };
    let output = |value: &ValueId| Output {
        path: String::new(),
        kind: OutputKind::Tensor(element_type, Vec::new()),
        value: *value,
    };
    Program {
        inputs: Vec::new(),
        weights: CONSTANTS.map(|value| weight(value, element_type)).collect(),
        outputs: outputs.iter().map(output).collect(),
        torch_version: None,
        values: (0..count).map(value).collect(),
        nodes,
        ranges: BTreeMap::new(),
        guards: Vec::new(),
    }
}

/// A tensor of one element, whose memory several values may share.
type Tensor = Rc<Cell<f64>>;

/// Executes calls on numbers, in which a convolution is `x · w + b`.
struct Executor {
    values: BTreeMap<ValueId, Tensor>,
}

impl Executor {
    fn of(x: f64, constants: &[f64]) -> Self {
        let constants = CONSTANTS.zip(constants.iter().copied());
        Self { values: constants.chain([(X, x)]).map(|(at, number)| (at, Rc::new(Cell::new(number)))).collect() }
    }

    fn number(&self, node: &Node, name: &str) -> f64 {
        match node.argument(name) {
            Some(Argument::Value(value)) => self.values[value].get(),
            Some(Argument::Float(number)) => *number,
            _ => 0.0,
        }
    }

    fn convolved(&self, node: &Node, [input, kernel, bias]: [&str; 3]) -> f64 {
        self.number(node, input) * self.number(node, kernel) + self.number(node, bias)
    }

    fn call(&mut self, node: &Node) {
        let Operator::Registered { name, .. } = &node.operator else { panic!("{node:?}") };
        let first = self.values[&node.operands()[0]].clone();
        let number = |name: &str| self.number(node, name);
        let result = match name.as_str() {
            "aten::view" => first,
            "aten::add_" => written(first, number("self") + number("other")),
            "aten::relu_" => written(first, number("self").max(0.0)),
            name => Rc::new(Cell::new(match name {
                // Here a copy, as where the strides allow no view.
                "aten::reshape"
                | "aten::transpose"
                | "aten::squeeze"
                | "aten::unsqueeze"
                | "mkldnn::_reorder_convolution_weight" => first.get(),
                "aten::zeros_like" => 0.0,
                "aten::add" => number("self") + number("other"),
                "aten::relu" => number("self").max(0.0),
                "aten::conv2d" => self.convolved(node, ["input", "weight", "bias"]),
                "aten::batch_norm" => {
                    let scale = number("weight") / (number("running_var") + number("eps")).sqrt();
                    (number("input") - number("running_mean")) * scale + number("bias")
                }
                "mkldnn::_convolution_pointwise" => self.pointwise(node),
                other => panic!("{other}"),
            })),
        };
        node.returned_values().into_iter().for_each(|value| drop(self.values.insert(value, Rc::clone(&result))));
    }

    fn pointwise(&self, node: &Node) -> f64 {
        let sum = self.convolved(node, ["X", "W", "B"]) + self.number(node, "other");
        let unary = [node.argument("attr"), node.argument("unary_attr")];
        if unary.contains(&Some(&Argument::Text("relu".to_owned()))) { sum.max(0.0) } else { sum }
    }

    fn outputs(mut self, calls: &[&[Node]], program: &Program) -> Vec<f64> {
        calls.iter().copied().flatten().for_each(|node| self.call(node));
        program.outputs.iter().map(|output| self.values[&output.value].get()).collect()
    }
}

fn written(tensor: Tensor, number: f64) -> Tensor {
    tensor.set(number);
    tensor
}

/// Returns the node of a random step, which takes two of the values before it: recent ones by the small numbers.
fn step((kind, first, second): (u8, usize, usize), result: ValueId) -> Node {
    let operand = |back: usize| match result - 1 - back.min(result - 1) {
        value if CONSTANTS.contains(&value) => X,
        value => value,
    };
    let (one, other) = (operand(first), operand(second));
    match kind {
        0 | 1 => convolution(one, KERNELS[second % 2], Argument::None, result),
        2 => convolution(one, KERNELS[second % 2], of(BIAS), result),
        3 | 4 => norm(one, result),
        5 => sum("add", one, other, result),
        6 => sum("add_", one, other, result),
        7 => unary("relu_", one, result),
        8 => unary("view", one, result),
        _ => unary("relu", one, result),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn fused_calls_compute_what_the_program_does(
        steps in prop::collection::vec((0_u8..10, 0_usize..3, 0_usize..4), 1..14),
        x in -2.0..2.0_f64,
        constants in prop::collection::vec(0.1..2.0_f64, CONSTANTS.len()),
        others in prop::collection::vec(0_usize..14, 0..2),
    ) {
        let first = CONSTANTS.end;
        let nodes: Vec<Node> = steps.iter().enumerate().map(|(at, choice)| step(*choice, first + at)).collect();
        let last = first + nodes.len() - 1;
        let outputs: Vec<ValueId> = others.iter().map(|at| first + at % nodes.len()).chain([last]).collect();
        let program = program(nodes, &outputs, FLOAT);
        let calls = program.fused();
        let expected = Executor::of(x, &constants).outputs(&[&program.nodes], &program);
        let found = Executor::of(x, &constants).outputs(&[&calls.preparation, &calls.nodes], &program);
        for (expected, found) in expected.iter().zip(&found) {
            prop_assert!((expected - found).abs() <= 1e-9 * expected.abs().max(1.0), "{expected} {found}");
        }
        prop_assert!(calls.nodes.len() <= program.nodes.len());
    }
}

fn names(program: &Program) -> Vec<String> {
    program.fused().nodes.iter().map(|node| node.operator.to_string()).collect()
}

const FUSED: &str = "mkldnn::_convolution_pointwise";

#[test]
fn a_residual_block_becomes_two_convolutions() {
    let block = vec![
        convolution(X, KERNELS[0], Argument::None, 8),
        norm(8, 9),
        unary("relu_", 9, 10),
        convolution(10, KERNELS[1], Argument::None, 11),
        norm(11, 12),
        sum("add_", 12, X, 13),
        unary("relu_", 13, 14),
        unary("view", 14, 15),
    ];
    let program = program(block, &[15], FLOAT);
    assert_eq!(names(&program), [FUSED, &format!("{FUSED}.binary"), "aten::reshape"]);
    let attributes: Vec<Option<Argument>> = program.fused().nodes[..2]
        .iter()
        .map(|node| node.argument("attr").or_else(|| node.argument("unary_attr")).cloned())
        .collect();
    assert_eq!(attributes, [Some(Argument::Text("relu".to_owned())), Some(Argument::Text("relu".to_owned()))]);
}

#[test]
fn a_small_convolution_stays_libtorchs_own_with_the_norm_applied() {
    let block = vec![convolution(X, KERNELS[0], Argument::None, 8), norm(8, 9), unary("relu", 9, 10)];
    let mut small = program(block, &[10], FLOAT);
    for weight in &mut small.weights {
        weight.sizes[0] -= 1;
    }
    assert_eq!(names(&small), ["aten::conv2d", "aten::relu"]);
    // In groups, libtorch's own is slower for all sizes.
    small.nodes[0].arguments.push(("groups".to_owned(), Argument::Int(3)));
    assert_eq!(names(&small), [FUSED]);
}

#[test]
fn a_weight_of_too_few_dimensions_is_no_kernel() {
    for rank in 0..3 {
        let nodes = vec![convolution(X, KERNELS[0], of(BIAS), 8), norm(8, 9)];
        let mut program = program(nodes.clone(), &[9], FLOAT);
        program.weights[0].sizes.truncate(rank);
        program.values[X].kind = ValueKind::Tensor(vec![Some(Expression::Number(1)); rank]);
        assert_eq!(program.fused().nodes, nodes);
    }
}

#[test]
fn convolutions_with_the_same_weights_share_the_kernel() {
    let one = convolution(X, KERNELS[0], Argument::None, 8);
    let program = program(vec![one, convolution(8, KERNELS[0], of(BIAS), 9)], &[9], FLOAT);
    let calls = program.fused();
    assert_eq!((calls.preparation.len(), calls.nodes[0].argument("W")), (1, calls.nodes[1].argument("W")));
}

#[test]
fn kernels_are_laid_out_for_the_sizes_of_the_images() {
    let sizes = |row: &[Option<Expression>]| {
        let mut program = program(vec![convolution(X, KERNELS[0], of(BIAS), 8)], &[8], FLOAT);
        program.values[X].kind = ValueKind::Tensor(row.to_vec());
        program.fused().preparation[0].argument("input_size").cloned()
    };
    let number = |number| Some(Expression::Number(number));
    let rows = Some(Expression::Symbol("s0".to_owned()));
    let row = [1, CHANNELS, 7, 9].map(Argument::Int).to_vec();
    assert_eq!(sizes(&[rows.clone(), number(CHANNELS), number(7), number(9)]), Some(Argument::List(row)));
    assert_eq!(sizes(&[rows.clone(), number(CHANNELS), number(7), rows.clone()]), None);
    // Sizes that no kernel takes are libtorch's to refuse, when the convolution runs.
    assert_eq!(sizes(&[rows.clone(), number(CHANNELS + 1), number(7), number(9)]), None);
    assert_eq!(sizes(&[rows, number(CHANNELS), number(0), number(i64::MAX)]), None);
}

#[test]
fn calls_stay_as_they_are_where_a_fusion_would_change_answers() {
    let with = |mut node: Node, name: &str, argument: Argument| {
        node.arguments.retain(|(own, _)| own != name);
        node.arguments.push((name.to_owned(), argument));
        node
    };
    let plain = || convolution(X, KERNELS[0], of(BIAS), 8);
    let kept = |nodes: Vec<Node>, element_type: ElementType| {
        let program = program(nodes.clone(), &[9], element_type);
        assert_eq!(program.fused().nodes, nodes);
    };
    kept(vec![plain(), norm(8, 9)], HALF);
    kept(vec![with(plain(), "weight", of(X)), norm(8, 9)], FLOAT);
    kept(vec![with(plain(), "transposed", Argument::Bool(true)), norm(8, 9)], FLOAT);
    // Strides decide the result of another call, and an operator of another library may not heed them.
    kept(vec![plain(), unary("as_strided", 8, 9)], FLOAT);
    let mut foreign = unary("crop", 8, 9);
    foreign.operator = Operator::Registered { name: "shop::crop".to_owned(), overload: String::new() };
    kept(vec![plain(), foreign], FLOAT);
    // A value that a view shares is written to later.
    kept(vec![plain(), unary("view", 8, 9), unary("relu_", 9, 10)], FLOAT);
}

#[test]
fn a_norm_stays_where_it_is_not_of_constants() {
    let with = |name: &str, argument: Argument| {
        let mut node = norm(8, 9);
        node.arguments.retain(|(own, _)| own != name);
        node.arguments.push((name.to_owned(), argument));
        node
    };
    let of_batch = with("training", Argument::Bool(true));
    let of_values = ["running_mean", "bias", "momentum"].map(|name| with(name, of(X)));
    for norm in of_values.into_iter().chain([of_batch, with("running_var", Argument::None)]) {
        let program = program(vec![convolution(X, KERNELS[0], of(BIAS), 8), norm], &[9], FLOAT);
        let mut names = names(&program);
        names.retain(|name| name != "aten::contiguous");
        assert_eq!(names, [FUSED, "aten::batch_norm"]);
    }
}

#[test]
fn statistics_of_images_are_computed_with_the_channels_first() {
    let of_batch = |name: &str| {
        let mut node = registered(name, &[("input", of(8)), ("training", Argument::Bool(true))], 9);
        node.guards = vec![Guard { condition: X, expected: true }];
        node
    };
    for name in ["group_norm", "native_group_norm", "batch_norm", "_native_batch_norm_legit.no_stats"] {
        let program = program(vec![convolution(X, KERNELS[0], of(BIAS), 8), of_batch(name)], &[9], FLOAT);
        assert_eq!(names(&program), [FUSED, "aten::contiguous", &format!("aten::{name}")]);
        let calls = program.fused();
        let [_, copy, norm] = calls.nodes.as_slice() else { panic!("{:?}", calls.nodes) };
        assert_eq!((copy.operands(), copy.returned_values()), (vec![8], norm.operands()));
        assert_eq!(copy.guards, norm.guards);
        // The copy is made in each run, so it is none of the constants.
        let plan = program.plan(crate::plan::Processor::Cpu).unwrap();
        assert_eq!((plan.constants, plan.slots), (CONSTANTS.len() + 1, calls.values));
        assert_eq!(plan.calls[1].outputs, [crate::plan::PlanOutput::Slot(calls.values - 1)]);
        assert!(plan.calls[2].frees.contains(&(calls.values - 1)));
    }
    // A convolution that stays libtorch's own keeps the channels first.
    let grouped = registered("group_norm", &[("input", of(X))], 8);
    assert_eq!(names(&program(vec![grouped], &[8], FLOAT)), ["aten::group_norm"]);
}

#[test]
fn a_sum_stays_where_the_input_of_the_convolution_changes_before_it() {
    let nodes = vec![convolution(X, KERNELS[0], of(BIAS), 8), unary("relu_", X, 9), sum("add", 8, 9, 10)];
    assert_eq!(names(&program(nodes, &[10], FLOAT)), [FUSED, "aten::relu_", "aten::add.Tensor"]);
}
