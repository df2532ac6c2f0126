//! One operator of each rule of the table, with rows where it keeps them apart and where it mixes them.

use std::collections::BTreeMap;

use super::*;
use crate::graph::{Input, Output, Payload, Value, Weight};

/// Sizes of a tensor by text: `s` is the number of rows.
fn sizes(text: &str) -> Vec<Option<Expression>> {
    text.split_ascii_whitespace().map(Expression::parse).collect()
}

fn dimensions(text: &str) -> Vec<Dimension> {
    let dimension = |size: &str| size.parse().map_or(Dimension::Variable, Dimension::Fixed);
    text.split_ascii_whitespace().map(dimension).collect()
}

fn value(name: usize, text: &str) -> Value {
    Value { name: format!("v{name}"), kind: ValueKind::Tensor(sizes(text)) }
}

fn input(value: ValueId, text: &str) -> Input {
    let (name, dimensions) = (format!("v{value}"), dimensions(text));
    Input { name, element_type: 6, dimensions, example: Vec::new(), path: Vec::new(), value }
}

fn weight(value: ValueId) -> Weight {
    let payload = Payload { entry: String::new(), bytes: 0, tensor: None };
    let (sizes, strides) = (Vec::new(), Vec::new());
    Weight { name: format!("v{value}"), element_type: 6, sizes, strides, offset: 0, payload, value }
}

/// Decides a program of one operator. Tensors of rows are inputs, all others weights. In `arguments`, `Value` is the
/// index of a tensor. The last size is that of the result.
fn decided(name: &str, tensors: &[&str], arguments: &[(&str, Argument)]) -> Verdict {
    let last = tensors.len() - 1;
    let has_rows = |at: &usize| tensors[*at].contains('s');
    let operator = Operator::Registered { name: format!("aten::{name}"), overload: String::new() };
    let node = Node {
        operator,
        place: "'it'".to_owned(),
        arguments: arguments.iter().map(|(name, argument)| ((*name).to_owned(), argument.clone())).collect(),
        outputs: vec![Returned::Value(last)],
    };
    let kind = OutputKind::Tensor(6, dimensions(tensors[last]));
    let program = Program {
        inputs: (0..last).filter(has_rows).map(|at| input(at, tensors[at])).collect(),
        weights: (0..last).filter(|at| !has_rows(at)).map(weight).collect(),
        outputs: vec![Output { path: "#0".to_owned(), kind, value: last }],
        values: tensors.iter().enumerate().map(|(at, text)| value(at, text)).collect(),
        nodes: vec![node],
        ranges: BTreeMap::new(),
        guards: Vec::new(),
        torch_version: None,
    };
    program.verdict(&program.batch().unwrap())
}

const A: (&str, Argument) = ("self", Argument::Value(0));
const B: (&str, Argument) = ("other", Argument::Value(1));
const C: (&str, Argument) = ("third", Argument::Value(2));

fn int(name: &str, number: i64) -> (&str, Argument) {
    (name, Argument::Int(number))
}

fn ints<'a>(name: &'a str, numbers: &[i64]) -> (&'a str, Argument) {
    (name, Argument::List(numbers.iter().map(|number| Argument::Int(*number)).collect()))
}

fn flag(name: &str, value: bool) -> (&str, Argument) {
    (name, Argument::Bool(value))
}

#[test]
fn operators_that_keep_rows_apart_are_proven() {
    let parts = ("tensors", Argument::List(vec![Argument::Value(0), Argument::Value(1)]));
    let cases: Vec<(&str, Vec<&str>, Vec<(&str, Argument)>)> = vec![
        ("add", vec!["s 4", "4", "s 4"], vec![A, B]),
        ("mul_", vec!["s 4", "s 1", "s 4"], vec![A, B]),
        ("softmax", vec!["s 4", "s 4"], vec![A, int("dim", -1)]),
        ("mean", vec!["s 3 4", "s 4"], vec![A, ints("dim", &[1])]),
        ("layer_norm", vec!["s 4", "s 4"], vec![A, ints("normalized_shape", &[4])]),
        ("conv1d", vec!["s 3 8", "4 3 3", "s 4 6"], vec![A, B]),
        ("max_pool2d", vec!["s 3 8 8", "s 3 4 4"], vec![A, ints("kernel_size", &[2])]),
        ("avg_pool3d", vec!["s 3 8 8 8", "s 3 4 4 4"], vec![A]),
        ("tril", vec!["s 4 4", "s 4 4"], vec![A]),
        ("group_norm", vec!["s 4 8", "s 4 8"], vec![A, int("num_groups", 2)]),
        ("linear", vec!["s 4", "3 4", "s 3"], vec![A, B]),
        ("matmul", vec!["s 4", "4 3", "s 3"], vec![A, B]),
        ("matmul", vec!["s 3 4", "s 4 5", "s 3 5"], vec![A, B]),
        ("mv", vec!["s 4", "4", "s"], vec![A, B]),
        ("addmm", vec!["s 4", "4 3", "3", "s 3"], vec![("self", Argument::Value(2)), A, B]),
        ("scaled_dot_product_attention", vec!["s 2 5 4", "s 2 6 4", "s 2 6 4", "s 2 5 4"], vec![A, B, C]),
        ("batch_norm", vec!["s 4", "4", "s 4"], vec![A, B, flag("training", false)]),
        ("embedding", vec!["9 4", "s 3", "s 3 4"], vec![A, B]),
        ("view", vec!["s 3 4", "s 12"], vec![A]),
        ("transpose", vec!["s 3 4", "s 4 3"], vec![A, int("dim0", 1), int("dim1", 2)]),
        ("permute", vec!["s 3 4", "s 4 3"], vec![A, ints("dims", &[0, 2, 1])]),
        ("unsqueeze", vec!["s 3", "s 1 3"], vec![A, int("dim", 1)]),
        ("squeeze", vec!["s 1 3", "s 3"], vec![A, int("dim", 1)]),
        ("expand", vec!["s 1", "s 4"], vec![A]),
        ("slice", vec!["s 4", "s 2"], vec![A, int("dim", 1), int("start", 2)]),
        ("slice", vec!["s 4", "s 4"], vec![A, int("dim", 0), int("start", 0), int("end", i64::MAX)]),
        ("flip", vec!["s 4", "s 4"], vec![A, ints("dims", &[1])]),
        ("gather", vec!["s 4", "s 2", "s 2"], vec![A, int("dim", 1), ("index", Argument::Value(1))]),
        ("select", vec!["s 3 4", "s 4"], vec![A, int("dim", 1), int("index", 0)]),
        ("unbind", vec!["s 3 4", "s 4"], vec![A, int("dim", 1)]),
        ("cat", vec!["s 3", "s 4", "s 7"], vec![parts.clone(), int("dim", 1)]),
        ("stack", vec!["s 3", "s 3", "s 2 3"], vec![parts, int("dim", 1)]),
        ("gru", vec!["s 3 4", "s 3 8"], vec![A, flag("train", false), flag("batch_first", true)]),
        ("new_zeros", vec!["s 3", "s 5"], vec![A]),
        ("pad", vec!["s 3", "s 5"], vec![A, ints("pad", &[1, 1])]),
        ("dropout", vec!["s 3", "s 3"], vec![A, flag("train", false)]),
        ("unfold", vec!["s 8", "s 4 2"], vec![A, int("dimension", 1)]),
    ];
    for (name, tensors, arguments) in cases {
        assert_eq!(decided(name, &tensors, &arguments), Verdict::Proven, "{name} {tensors:?}");
    }
}

#[test]
fn operators_that_mix_rows_are_coupled_by_name() {
    let parts = ("tensors", Argument::List(vec![Argument::Value(0), Argument::Value(1)]));
    let cases: Vec<(&str, Vec<&str>, Vec<(&str, Argument)>)> = vec![
        ("softmax", vec!["s 4", "s 4"], vec![A, int("dim", 0)]),
        ("mean", vec!["s 3", "3"], vec![A, ints("dim", &[0])]),
        ("sum", vec!["s 3", ""], vec![A]),
        ("layer_norm", vec!["s 4", "s 4"], vec![A, ints("normalized_shape", &[8, 4])]),
        ("conv2d", vec!["s 8 8", "4 3 3 3", "4 6 6"], vec![A, B]),
        ("tril", vec!["s 4", "s 4"], vec![A]),
        ("linear", vec!["s", "3 4", "3"], vec![A, B]),
        ("matmul", vec!["3 4", "s 4", "s 4"], vec![A, B]),
        ("mm", vec!["s 4", "s 4", "s 4"], vec![A, B]),
        ("scaled_dot_product_attention", vec!["s 4", "s 4", "s 4", "s 4"], vec![A, B, C]),
        ("batch_norm", vec!["s 4", "4", "s 4"], vec![A, B, flag("training", true)]),
        ("squeeze", vec!["s 3", "s 3"], vec![A]),
        ("slice", vec!["s 4", "2 4"], vec![A, int("dim", 0), int("start", 2)]),
        ("cumsum", vec!["s 4", "s 4"], vec![A, int("dim", 0)]),
        ("roll", vec!["s 4", "s 4"], vec![A, ints("shifts", &[1]), ints("dims", &[0])]),
        ("select", vec!["s 4", "4"], vec![A, int("dim", 0), int("index", 0)]),
        ("cat", vec!["s 3", "s 3", "2*s 3"], vec![parts, int("dim", 0)]),
        ("gru", vec!["s 3 4", "s 3 8"], vec![A, flag("train", false), flag("batch_first", false)]),
    ];
    for (name, tensors, arguments) in cases {
        let expected = Verdict::Coupled(format!("operator aten::{name} at 'it'"));
        assert_eq!(decided(name, &tensors, &arguments), expected, "{name} {tensors:?}");
    }
}

#[test]
fn what_the_table_does_not_decide_is_unknown() {
    for (name, tensors, arguments) in [
        ("fft_fft", vec!["s 4", "s 4"], vec![A]),
        ("index_put_", vec!["s 4", "s 4", "s 4"], vec![A, B]),
        ("dropout", vec!["s 4", "s 4"], vec![A, flag("train", true)]),
        ("rand_like", vec!["s 4", "s 4"], vec![A]),
        ("add", vec!["s 4", "s 4", "s s"], vec![A, B]),
        ("view", vec!["s 4", "4 s"], vec![A]),
    ] {
        let expected = Verdict::Unknown(format!("operator aten::{name} at 'it'"));
        assert_eq!(decided(name, &tensors, &arguments), expected, "{name} {tensors:?}");
    }
}
