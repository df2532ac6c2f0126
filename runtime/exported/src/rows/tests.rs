//! One operator of each rule of the table, with rows where it keeps them apart and where it mixes them.

mod batch;
mod table;
mod writes;

use std::collections::BTreeMap;

use super::*;
use crate::graph::{Input, Output, Payload, Value, Weight};
use crate::operators::CHOICE;

/// Sizes of a tensor by text: `s` is the number of rows.
fn sizes(text: &str) -> Vec<Option<Expression>> {
    text.split_ascii_whitespace().map(Expression::parse).collect()
}

fn dimensions(text: &str) -> Vec<Dimension> {
    let dimension = |size: &str| size.parse().map_or(Dimension::Variable, Dimension::Fixed);
    text.split_ascii_whitespace().map(dimension).collect()
}

fn value(name: usize, text: &str) -> Value {
    Value { name: format!("v{name}"), kind: ValueKind::Tensor(sizes(text)), element_type: Some(6) }
}

fn input(value: ValueId, text: &str) -> Input {
    let (name, dimensions) = (format!("v{value}"), dimensions(text));
    Input { name, element_type: 6, dimensions, example: Vec::new(), path: Vec::new(), value }
}

fn weight(value: ValueId) -> Weight {
    let payload = Payload { entry: String::new(), archive: None, bytes: 0, tensor: None };
    let (sizes, strides) = (Vec::new(), Vec::new());
    Weight { name: format!("v{value}"), element_type: 6, sizes, strides, offset: 0, payload, value }
}

/// Decides a program of one operator. Tensors of rows are inputs, all others weights. In `arguments`, `Value` is the
/// index of a tensor. The last size is that of the result.
fn decided(name: &str, tensors: &[&str], arguments: &[(&str, Argument)]) -> Verdict {
    let last = tensors.len() - 1;
    let program = program_of(tensors, &[(name, arguments.to_vec(), last)]);
    program.verdict(&program.batch().unwrap())
}

/// Returns a program of these operators, each with the index of its result. The last tensor is the output, and `size` in
/// place of a tensor's sizes is the number of rows.
fn program_of(tensors: &[&str], nodes: &[(&str, Vec<(&str, Argument)>, usize)]) -> Program {
    let last = tensors.len() - 1;
    let is_size = |at: &usize| tensors[*at] == "size";
    let has_rows = |at: &usize| tensors[*at].contains('s') && !is_size(at);
    let node = |(name, arguments, result): &(&str, Vec<(&str, Argument)>, usize)| Node {
        operator: Operator::Registered {
            name: if name.contains(':') { (*name).to_owned() } else { format!("aten::{}", named(name).0) },
            overload: named(name).1,
        },
        place: "'it'".to_owned(),
        arguments: arguments.iter().map(|(name, argument)| ((*name).to_owned(), argument.clone())).collect(),
        outputs: vec![Returned::Value(*result)],
        guards: Vec::new(),
    };
    let number =
        |at: usize| Value { name: format!("v{at}"), kind: ValueKind::Int(Expression::parse("s")), element_type: None };
    let valued = |(at, text): (usize, &&str)| if is_size(&at) { number(at) } else { value(at, text) };
    Program {
        inputs: (0..last).filter(has_rows).map(|at| input(at, tensors[at])).collect(),
        weights: (0..last).filter(|at| !has_rows(at) && !is_size(at)).map(weight).collect(),
        outputs: vec![Output {
            path: "#0".to_owned(),
            kind: OutputKind::Tensor(6, dimensions(tensors[last])),
            value: last,
        }],
        values: tensors.iter().enumerate().map(valued).collect(),
        nodes: nodes.iter().map(node).collect(),
        ranges: BTreeMap::new(),
        guards: Vec::new(),
        torch_version: None,
    }
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
        ("pad", vec!["s 3 4", "s 4 4"], vec![A, ints("pad", &[0, 0, 0, 1, 0, 0])]),
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
fn an_operator_that_the_table_cannot_decide_is_unknown() {
    for (name, tensors, arguments) in [
        ("index_put_", vec!["s 4", "s 4", "s 4"], vec![A, B]),
        ("dropout", vec!["s 4", "s 4"], vec![A, flag("train", true)]),
        ("rand_like", vec!["s 4", "s 4"], vec![A]),
        ("add", vec!["s 4", "s 4", "s s"], vec![A, B]),
        ("add.out", vec!["s 4", "s 4", "s 4", "s 4"], vec![A, B, ("out", Argument::Value(2))]),
        ("repeat_interleave", vec!["s 4", "s", "s 4"], vec![A, ("repeats", Argument::Value(1)), int("dim", 0)]),
        ("repeat_interleave", vec!["s", "s"], vec![("repeats", Argument::Value(0))]),
        ("squeeze", vec!["s t 4", "s t 4"], vec![A, int("dim", 1)]),
        ("view", vec!["s 4", "4 s"], vec![A]),
        ("cross_entropy_loss", vec!["s 4", "s", "s"], vec![A, B, int("reduction", 0)]),
    ] {
        let expected = Verdict::Unknown(format!("operator aten::{name} at 'it'"));
        assert_eq!(decided(name, &tensors, &arguments), expected, "{name} {tensors:?}");
    }
}

#[test]
fn an_operator_that_couples_is_found_after_one_that_is_unknown() {
    let summed = |from: usize| ("sum", vec![("self", Argument::Value(from)), ints("dim", &[0])]);
    let tensors = |unknown, result| ["s 4 3", unknown, result];
    let verdict = |name, unknown, (then, arguments): (_, Vec<_>)| {
        decided_all(&tensors(unknown, "4 3"), &[(name, vec![A], 1), (then, arguments, 2)])
    };
    let coupled = Verdict::Coupled("operator aten::sum at 'it'".to_owned());
    for name in ["renorm", "slice_scatter", "an_unknown_operator"] {
        assert_eq!(verdict(name, "s 4 3", summed(1)), coupled, "{name}");
        let unknown = Verdict::Unknown(format!("operator aten::{name} at 'it'"));
        assert_eq!(verdict(name, "s 4 3", ("relu", vec![("self", Argument::Value(1))])), unknown, "{name}");
        // The rows are not where the sum is, or in no dimension that is known.
        assert_eq!(verdict(name, "4 s 3", summed(1)), unknown, "{name}");
        assert_eq!(verdict(name, "2*s 3", summed(1)), unknown, "{name}");
        assert_eq!(verdict(name, "s s", summed(1)), unknown, "{name}");
    }
}

#[test]
fn results_of_numbers_alone_are_not_assumed_to_have_rows() {
    let random = ("rand", vec![("size", Argument::List(vec![Argument::Value(1), Argument::Int(4)]))], 2);
    let summed = ("sum", vec![("self", Argument::Value(2)), ints("dim", &[0])], 3);
    let verdict = decided_all(&["s 4", "size", "s 4", "4"], &[with_size("sym_size"), random, summed]);
    assert_eq!(verdict, Verdict::Unknown("operator aten::rand at 'it'".to_owned()));
}

#[test]
fn rows_that_are_written_to_places_by_an_index_are_coupled() {
    // Sums of the rows with the same key.
    let index = ("index", Argument::Value(1));
    let source = ("source", Argument::Value(2));
    let table = ("self", Argument::Value(3));
    let tensors = ["s 4", "s", "s 4", "9 4", "9 4"];
    for name in ["index_add", "index_reduce_", "index_copy", "index_fill_"] {
        let arguments = [table.clone(), int("dim", 0), index.clone(), source.clone()];
        assert_eq!(decided(name, &tensors, &arguments), Verdict::Coupled(format!("operator aten::{name} at 'it'")));
    }
    let put = [table.clone(), list("indices", &[1]), ("values", Argument::Value(2)), flag("accumulate", true)];
    assert!(matches!(decided("index_put", &tensors, &put), Verdict::Coupled(_)));
    for name in ["scatter", "scatter_add_", "scatter_reduce"] {
        let arguments =
            |dim| [table.clone(), int("dim", dim), ("index", Argument::Value(0)), ("src", Argument::Value(2))];
        assert!(matches!(decided(name, &tensors, &arguments(0)), Verdict::Coupled(_)), "{name}");
        assert!(matches!(decided(name, &tensors, &arguments(1)), Verdict::Unknown(_)), "{name}");
    }
    // A table is looked up.
    let looked_up = [("self", Argument::Value(1)), int("dim", 0), ("index", Argument::Value(0))];
    assert!(matches!(decided("gather", &["s", "9", "s"], &looked_up), Verdict::Unknown(_)));
}

#[test]
fn masks_and_numbers_of_rows_do_not_write_to_the_places_of_other_rows() {
    let write = |indices: &[usize]| vec![A, list("indices", indices), ("values", Argument::Value(1))];
    let mut program = program_of(&["s 4", "s 4", "s 4"], &[("index_put", write(&[1]), 2)]);
    program.values[1].element_type = Some(11);
    assert!(matches!(program.verdict(&program.batch().unwrap()), Verdict::Unknown(_)));
    let numbers = ("arange", vec![("end", Argument::Value(1))], 2);
    let put = ("index_put", vec![A, list("indices", &[2, 3]), ("values", Argument::Value(4))], 5);
    let tensors = ["s 9", "size", "s", "s", "s", "s 9"];
    let verdict = decided_all(&tensors, &[with_size("sym_size"), numbers, put]);
    assert_eq!(verdict, Verdict::Unknown("operator aten::index_put at 'it'".to_owned()));
}

/// Returns the name and the overload.
fn named(operator: &str) -> (&str, String) {
    let (name, overload) = operator.split_once('.').unwrap_or((operator, ""));
    (name, overload.to_owned())
}

fn list<'a>(name: &'a str, values: &[usize]) -> (&'a str, Argument) {
    (name, Argument::List(values.iter().map(|value| Argument::Value(*value)).collect()))
}

/// Decides a program of several operators, each with the index of its result.
fn decided_all(tensors: &[&str], nodes: &[(&str, Vec<(&str, Argument)>, usize)]) -> Verdict {
    let mut program = program_of(tensors, nodes);
    let made: Vec<usize> = nodes.iter().map(|(.., result)| *result).collect();
    program.inputs.retain(|input| !made.contains(&input.value));
    program.verdict(&program.batch().unwrap())
}

/// The size of the batch as a number: `Value(1)` in a program of two tensors or more.
fn with_size(name: &'static str) -> (&'static str, Vec<(&'static str, Argument)>, usize) {
    (name, vec![A, int("dim", 0)], 1)
}

#[test]
fn numbers_of_rows_may_only_say_which_row_is_taken() {
    let numbers = ("arange", vec![("end", Argument::Value(1))], 2);
    let tensors = ["s 4 5", "size", "s", "s 5"];
    let at = |indices: Vec<Argument>| vec![A, ("indices", Argument::List(indices))];
    let of_each = ("index", at(vec![Argument::Value(2), Argument::Int(0)]), 3);
    assert_eq!(decided_all(&tensors, &[with_size("sym_size"), numbers.clone(), of_each]), Verdict::Proven);
    let whole = ("slice", vec![("self", Argument::Value(2)), int("dim", 0), int("end", i64::MAX)], 3);
    let by_slice = ("index", at(vec![Argument::Value(3), Argument::Int(0)]), 4);
    let nodes = [with_size("sym_size"), numbers.clone(), whole, by_slice];
    assert_eq!(decided_all(&["s 4 5", "size", "s", "s", "s 5"], &nodes), Verdict::Proven);
    let added = ("add", vec![("self", Argument::Value(2)), A], 3);
    let coupled = decided_all(&["s 4 5", "size", "s", "s 4 5"], &[with_size("sym_size"), numbers.clone(), added]);
    assert!(matches!(coupled, Verdict::Coupled(_)), "{coupled:?}");
    let backwards = ("arange", vec![int("start", 3), ("end", Argument::Value(1))], 2);
    let of_other = ("index", at(vec![Argument::Value(2)]), 3);
    let unknown = decided_all(&["s 4 5", "size", "s", "s 4 5"], &[with_size("sym_size"), backwards, of_other]);
    assert!(matches!(unknown, Verdict::Unknown(_)), "{unknown:?}");
}

#[test]
fn a_factor_that_is_the_number_of_rows_is_not_proven() {
    let size = Argument::Value(1);
    let tensors = |result| ["s 4", "size", "9 4", "3", "4 3", result];
    let unknown = |result, operator| {
        let verdict = decided_all(&tensors(result), &[with_size("sym_size"), operator]);
        assert!(matches!(verdict, Verdict::Unknown(_)), "{verdict:?}");
    };
    unknown("s 9", ("cdist", vec![A, ("x2", Argument::Value(2)), ("p", size.clone())], 5));
    let product = vec![("self", Argument::Value(3)), A, ("mat2", Argument::Value(4)), ("alpha", size.clone())];
    unknown("s 3", ("addmm", product, 5));
    unknown("s 4", ("cat", vec![list("tensors", &[0]), ("dim", size)], 5));
}

#[test]
fn random_constants_are_not_proven() {
    for (name, is_constant) in
        [("neg_", true), ("uniform_", false), ("exponential_", false), ("poisson", false), ("rand_like", false)]
    {
        let drawn = (name, vec![("self", Argument::Value(1))], 2);
        let verdict =
            decided_all(&["s 4", "4", "4", "s 4"], &[drawn, ("add", vec![A, ("other", Argument::Value(2))], 3)]);
        assert_eq!(verdict == Verdict::Proven, is_constant, "{name} {verdict:?}");
    }
}

#[test]
fn bags_are_by_row_if_each_has_as_many_indices() {
    let tensors = ["s 4", "size", "4*s", "s", "9 8", "s 8"];
    let bag = |step| {
        vec![
            with_size("sym_size"),
            ("reshape", vec![A], 2),
            ("arange", vec![int("start", 0), ("end", Argument::Value(1)), int("step", step)], 3),
            (
                "embedding_bag",
                vec![("weight", Argument::Value(4)), ("indices", Argument::Value(2)), ("offsets", Argument::Value(3))],
                5,
            ),
        ]
    };
    assert_eq!(decided_all(&tensors, &bag(4)), Verdict::Proven);
    assert!(matches!(decided_all(&tensors, &bag(2)), Verdict::Coupled(_)));
}

#[test]
fn equal_elements_are_rows_where_a_dimension_has_their_number() {
    for name in ["zeros", "ones", "full", "empty"] {
        let filled = (name, vec![("size", Argument::List(vec![Argument::Value(1), Argument::Int(3)]))], 2);
        let looked_up = ("embedding", vec![("weight", Argument::Value(3)), ("indices", Argument::Value(2))], 4);
        let tensors = ["s 4", "size", "s 3", "9 5", "s 3 5"];
        assert_eq!(decided_all(&tensors, &[with_size("sym_size"), filled, looked_up]), Verdict::Proven, "{name}");
    }
    // A matrix of rows by rows.
    let filled = ("ones", vec![("size", Argument::List(vec![Argument::Value(1), Argument::Value(1)]))], 2);
    let below = ("tril", vec![("self", Argument::Value(2))], 3);
    let nodes = [with_size("sym_size"), filled, below];
    assert!(matches!(decided_all(&["s 4", "size", "s s", "s s"], &nodes), Verdict::Coupled(_)));
    let filled = ("ones", vec![("size", Argument::List(vec![Argument::Value(1), Argument::Value(1)]))], 2);
    let summed = ("sum", vec![("self", Argument::Value(2)), ints("dim", &[1])], 3);
    let nodes = [with_size("sym_size"), filled, summed];
    assert!(matches!(decided_all(&["s 4", "size", "s s", "s"], &nodes), Verdict::Coupled(_)));
}

#[test]
fn a_new_tensor_without_a_dimension_of_rows_is_a_constant() {
    let made = ("new_zeros", vec![A, ints("size", &[4])], 1);
    let part = ("slice", vec![("self", Argument::Value(1)), int("dim", 0), int("start", 2)], 2);
    let added = ("add", vec![A, ("other", Argument::Value(2))], 3);
    assert_eq!(decided_all(&["s 2", "4", "2", "s 2"], &[made, part, added]), Verdict::Proven);
}

#[test]
fn rows_in_the_place_of_channels_are_pooled_and_resized_apart() {
    for (name, is_apart) in [("upsample_nearest2d", true), ("max_pool2d", true), ("conv2d", false)] {
        let moved = ("transpose", vec![A, int("dim0", 0), int("dim1", 1)], 1);
        let computed = (name, vec![("self", Argument::Value(1))], 2);
        let back = ("transpose", vec![("self", Argument::Value(2)), int("dim0", 0), int("dim1", 1)], 3);
        let verdict = decided_all(&["s 1 8 8", "1 s 8 8", "1 s 2 2", "s 1 2 2"], &[moved, computed, back]);
        assert_eq!(verdict == Verdict::Proven, is_apart, "{name}: {verdict:?}");
        assert!(is_apart || matches!(verdict, Verdict::Coupled(_)), "{name}: {verdict:?}");
    }
}

#[test]
fn a_constant_is_repeated_for_each_row() {
    let repeats = |first: Argument| ("repeats", Argument::List(vec![first, Argument::Int(1)]));
    let repeated = ("repeat", vec![("self", Argument::Value(2)), repeats(Argument::Value(1))], 3);
    let added = ("add", vec![A, ("other", Argument::Value(3))], 4);
    let nodes = [with_size("sym_size"), repeated, added];
    assert_eq!(decided_all(&["s 4", "size", "1 4", "s 4", "s 4"], &nodes), Verdict::Proven);
    let unknown = decided("repeat", &["s 4", "2*s 4"], &[A, ints("repeats", &[2, 1])]);
    assert!(matches!(unknown, Verdict::Unknown(_)), "{unknown:?}");
}

#[test]
fn sizes_that_depend_on_elements_are_not_decided() {
    let picked = ("indices", Argument::List(vec![Argument::None, Argument::Value(1)]));
    let unknown = decided("index", &["s 4", "4", "s u0"], &[A, picked]);
    assert!(matches!(unknown, Verdict::Unknown(_)), "{unknown:?}");
    // A position by the number of rows differs between batches.
    let part = ("slice", vec![A, int("dim", 1), ("start", Argument::Value(1)), int("end", i64::MAX)], 2);
    let verdict = decided_all(&["s 4", "size", "s 1"], &[with_size("sym_size"), part]);
    assert!(!matches!(verdict, Verdict::Proven), "{verdict:?}");
}

/// The choice between the tensors 1 and 2 as tensor 3.
fn choice(condition: Argument) -> (&'static str, Vec<(&'static str, Argument)>, usize) {
    (CHOICE, vec![("condition", condition), ("yes", Argument::Value(1)), ("no", Argument::Value(2))], 3)
}

#[test]
fn branches_keep_rows_apart_if_every_batch_takes_the_same() {
    let computed = |name| (name, vec![A], 1);
    let tensors = ["s 4", "s 4", "s 4", "s 4"];
    let decided = |name, condition| decided_all(&tensors, &[computed(name), ("neg", vec![A], 2), choice(condition)]);
    let coupled = Verdict::Coupled("operator torch.cond at 'it'".to_owned());
    assert_eq!(decided("relu", Argument::Bool(true)), Verdict::Proven);
    assert_eq!(decided("relu", Argument::Value(0)), coupled);
    // Trial runs could all take the same branch.
    assert_eq!(decided("an_unknown_operator", Argument::Bool(true)), coupled);
    let truth = ("is_nonzero", vec![A], 1);
    assert_eq!(
        decided_all(&["s", "", "s", "s"], &[truth]),
        Verdict::Coupled("operator aten::is_nonzero at 'it'".to_owned())
    );
    let moved = ("transpose", vec![A, int("dim0", 0), int("dim1", 1)], 2);
    assert_eq!(decided_all(&["s 4", "s 4", "4 s", "s 4"], &[computed("relu"), moved, choice(Argument::None)]), coupled);
}

#[test]
fn recurrent_layers_keep_merged_rows_apart_in_the_dimension_of_sequences() {
    let layer = |first| vec![("input", Argument::Value(1)), flag("train", false), flag("batch_first", first)];
    let merged = ("reshape", vec![A], 1);
    let apart = ("reshape", vec![("self", Argument::Value(2))], 3);
    let verdict = |first| {
        let nodes = [merged.clone(), ("gru", layer(first), 2), apart.clone()];
        decided_all(&["s 5 3 4", "5*s 3 4", "5*s 3 8", "s 5 3 8"], &nodes)
    };
    assert_eq!(verdict(true), Verdict::Proven);
    assert_eq!(verdict(false), Verdict::Coupled("operator aten::gru at 'it'".to_owned()));
}
