//! Writes through views of new tensors.

use super::*;

type Call = (&'static str, Vec<(&'static str, Argument)>, usize);

fn of(value: usize) -> (&'static str, Argument) {
    ("self", Argument::Value(value))
}

fn zeros(result: usize) -> Call {
    ("new_zeros", vec![A, ints("size", &[4])], result)
}

fn slice(from: usize, bounds: (i64, i64), result: usize) -> Call {
    ("slice", vec![of(from), int("dim", 1), int("start", bounds.0), int("end", bounds.1)], result)
}

fn row(from: usize, dim: i64, result: usize) -> Call {
    ("select", vec![of(from), int("dim", dim), int("index", 0)], result)
}

fn call(name: &'static str, from: usize, other: usize, result: usize) -> Call {
    (name, vec![of(from), ("other", Argument::Value(other))], result)
}

fn add(from: usize, other: usize, result: usize) -> Call {
    call("add", from, other, result)
}

fn is_proven(tensors: &[&str], nodes: &[Call]) -> bool {
    match decided_all(tensors, nodes) {
        Verdict::Proven => true,
        Verdict::Coupled(_) | Verdict::Unknown(_) => false,
    }
}

#[test]
fn a_tensor_has_rows_once_rows_are_written_to_a_part() {
    // z[:, :3] = x[:, :3]
    let written = [zeros(1), slice(1, (0, 3), 2), slice(0, (0, 3), 3), call("copy_", 2, 3, 4)];
    let with = |more: &[Call]| [written.as_slice(), more].concat();
    let tensors = ["s 4", "s 4", "s 3", "s 3", "s 3"];
    assert!(is_proven(&[tensors.as_slice(), &["s 4"]].concat(), &with(&[add(0, 1, 5)])));
    let of_first_client = with(&[row(1, 0, 5), add(0, 5, 6)]);
    assert!(!is_proven(&[tensors.as_slice(), &["4", "s 4"]].concat(), &of_first_client));
}

#[test]
fn a_view_of_a_row_is_not_decided_after_a_write_to_all_rows() {
    let nodes =
        [zeros(1), row(1, 0, 2), slice(1, (0, 3), 3), slice(0, (0, 3), 4), call("copy_", 3, 4, 5), add(0, 2, 6)];
    assert!(!is_proven(&["s 4", "s 4", "4", "s 3", "s 3", "s 3", "s 4"], &nodes));
}

#[test]
fn a_write_to_one_row_is_not_proven() {
    // z[0] += 1
    let one = ("add_", vec![of(2), int("other", 1)], 3);
    assert!(!is_proven(&["s 4", "s 4", "4", "4", "s 4"], &[zeros(1), row(1, 0, 2), one, add(0, 1, 4)]));
    let all = ("add_", vec![of(1), int("other", 1)], 2);
    assert!(is_proven(&["s 4", "s 4", "s 4", "s 4"], &[zeros(1), all, add(0, 1, 3)]));
    let column = ("add_", vec![of(2), int("other", 1)], 3);
    assert!(is_proven(&["s 4", "s 4", "s", "s", "s 4"], &[zeros(1), row(1, 1, 2), column, add(0, 1, 4)]));
}

#[test]
fn a_write_through_a_view_with_other_rows_is_not_proven() {
    let turned = |from| ("transpose", vec![of(from), int("dim0", 0), int("dim1", 1)], 3);
    let write = [turned(0), call("copy_", 2, 3, 4), add(0, 1, 5)];
    let tensors = ["s 4", "s 4", "4 s", "4 s", "4 s", "s 4"];
    let viewed = ("view", vec![of(1), ints("size", &[4, -1])], 2);
    assert!(!is_proven(&tensors, &[[zeros(1), viewed].as_slice(), &write].concat()));
    let transposed = ("transpose", vec![of(1), int("dim0", 0), int("dim1", 1)], 2);
    assert!(is_proven(&tensors, &[[zeros(1), transposed].as_slice(), &write].concat()));
}

#[test]
fn a_write_to_a_repeated_constant_is_not_proven() {
    let size = ("size", Argument::List(vec![Argument::Value(1), Argument::Int(4)]));
    let repeated = ("expand", vec![of(2), size], 3);
    let filled = |from, to| ("masked_fill_", vec![of(from), ("mask", Argument::Value(0)), int("value", 1)], to);
    let nodes = [with_size("sym_size"), repeated.clone(), filled(3, 4)];
    assert!(!is_proven(&["s 4", "size", "4", "s 4", "s 4"], &nodes));
    let nodes = [with_size("sym_size"), repeated, ("clone", vec![of(3)], 4), filled(4, 5)];
    assert!(is_proven(&["s 4", "size", "4", "s 4", "s 4", "s 4"], &nodes));
}

/// T5 shifts the ids of the decoder to the right.
#[test]
fn ids_that_are_shifted_in_a_new_tensor_are_proven() {
    let start = ("copy_", vec![of(6), ("src", Argument::Value(5))], 7);
    let shifted =
        [zeros(1), slice(0, (0, 3), 2), slice(1, (1, i64::MAX), 3), call("copy_", 3, 2, 4), row(1, 1, 6), start];
    let looked_up = ("embedding", vec![("weight", Argument::Value(8)), ("indices", Argument::Value(1))], 9);
    let tensors = ["s 4", "s 4", "s 3", "s 3", "s 3", "", "s", "s", "9 5", "s 4 5"];
    assert!(is_proven(&tensors, &[shifted.as_slice(), &[looked_up]].concat()));
}
