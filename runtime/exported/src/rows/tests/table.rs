//! A case of each entry of the table of operators.

use super::*;

type Case = (Vec<&'static str>, Vec<(&'static str, Argument)>);

type Cases = (Option<Case>, Option<Case>);

fn both(apart: Case, coupled: Case) -> Cases {
    (Some(apart), Some(coupled))
}

fn only(apart: Case) -> Cases {
    (Some(apart), None)
}

fn square() -> Vec<&'static str> {
    vec!["s 4", "s 4"]
}

fn text(name: &'static str, text: &str) -> (&'static str, Argument) {
    (name, Argument::Text(text.to_owned()))
}

/// Returns a case of each rule in which an operator keeps rows apart, and one in which it couples them; `None` for a
/// rule that only ever does one of both.
fn cases(name: &str, rule: Rule) -> Cases {
    match rule {
        Rule::Elementwise | Rule::Over(_) | Rule::Last(_) | Rule::LastOf(_) | Rule::Transform(_) | Rule::Spatial(_) => {
            over_dimensions(rule)
        }
        Rule::Linear
        | Rule::Matmul
        | Rule::Addmm
        | Rule::Attention
        | Rule::BatchNorm
        | Rule::Embedding
        | Rule::Index
        | Rule::Aligned
        | Rule::IndexSelect
        | Rule::IndexWrite
        | Rule::Einsum
        | Rule::Distance
        | Rule::Paired(_)
        | Rule::Samples
        | Rule::Cell
        | Rule::Convolution
        | Rule::Loss
        | Rule::Repeat
        | Rule::Diagonal => of_several_tensors(rule),
        Rule::Whole
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
        | Rule::Cat
        | Rule::Stack
        | Rule::Recurrent
        | Rule::FilledLike
        | Rule::Pad
        | Rule::Dropout
        | Rule::EmbeddingBag
        | Rule::Filled
        | Rule::Arange
        | Rule::Size
        | Rule::Assertion => moves(name, rule),
    }
}

/// Returns the cases of operators over dimensions.
fn over_dimensions(rule: Rule) -> Cases {
    match rule {
        Rule::Elementwise => both((vec!["s 4", "s 4", "s 4"], vec![A, B]), (vec!["s 1 4", "s 4", "s s 4"], vec![A, B])),
        Rule::Over(argument) => both(
            (vec!["s 3 4", "s 4"], vec![A, ints(argument, &[1])]),
            (vec!["s 3", "3"], vec![A, ints(argument, &[0])]),
        ),
        Rule::Last(0) => only((vec!["s 4", "s 4"], vec![A])),
        Rule::Last(1) => both((vec!["s 4 4", "s 4 4"], vec![A]), (vec!["s", "s"], vec![A])),
        Rule::Last(3) => both((vec!["s 4 4 4", "s 4 4 4"], vec![A]), (vec!["s 4 4", "s 4 4"], vec![A])),
        Rule::LastOf(argument) => {
            both((square(), vec![A, ints(argument, &[4])]), (vec!["s 4", "s 4"], vec![A, ints(argument, &[4, 4])]))
        }
        Rule::Transform(usize::MAX) => both((square(), vec![A, ints("dim", &[1])]), (square(), vec![A])),
        Rule::Transform(1) => both((square(), vec![A]), (square(), vec![A, int("dim", 0)])),
        Rule::Last(_) | Rule::Transform(_) => both((vec!["s 4 4", "s 4 4"], vec![A]), (square(), vec![A])),
        Rule::Spatial(0) => only((vec!["s 4 8", "s 4 8"], vec![A])),
        Rule::Spatial(1) => both((vec!["s 3 8", "s 3 6"], vec![A]), (square(), vec![A])),
        Rule::Spatial(2) => both((vec!["s 3 8 8", "s 3 6 6"], vec![A]), (vec!["s 4 4", "s 4 4"], vec![A])),
        Rule::Spatial(_) => both((vec!["s 3 8 8 8", "s 3 6 6 6"], vec![A]), (vec!["s 4 4 4", "s 4 4 4"], vec![A])),
        other => unreachable!("{other:?} is of another group"),
    }
}

/// Returns the cases of operators that combine several tensors.
fn of_several_tensors(rule: Rule) -> Cases {
    match rule {
        Rule::Linear => both((vec!["s 4", "3 4", "s 3"], vec![A, B]), (vec!["s", "3 4", "3"], vec![A, B])),
        Rule::Matmul => both((vec!["s 4", "4 3", "s 3"], vec![A, B]), (vec!["s 4", "s 4", "s 4"], vec![A, B])),
        Rule::Addmm => only((vec!["s 4", "4 3", "3", "s 3"], vec![("self", Argument::Value(2)), A, B])),
        Rule::Attention => both(
            (vec!["s 2 5 4", "s 2 6 4", "s 2 6 4", "s 2 5 4"], vec![A, B, C]),
            (vec!["s 4", "s 4", "s 4", "s 4"], vec![A, B, C]),
        ),
        Rule::BatchNorm => {
            both((square(), vec![A, flag("training", false)]), (square(), vec![A, flag("training", true)]))
        }
        Rule::Embedding => only((vec!["9 4", "s 3", "s 3 4"], vec![A, B])),
        Rule::Index => both(
            (
                vec!["s 4 5", "3", "s 3 5"],
                vec![A, ("indices", Argument::List(vec![Argument::None, Argument::Value(1)]))],
            ),
            (vec!["s 4", "s", "s 4"], vec![A, list("indices", &[1])]),
        ),
        Rule::Aligned => {
            let along = |dim| vec![A, int("dim", dim), ("index", Argument::Value(1))];
            both((vec!["s 4", "s 2", "s 2"], along(1)), (vec!["s 4", "s 4", "s 4"], along(0)))
        }
        Rule::IndexSelect => both(
            (vec!["9 4", "s", "s 4"], vec![A, int("dim", 0), ("index", Argument::Value(1))]),
            (vec!["s 4", "2", "2 4"], vec![A, int("dim", 0), ("index", Argument::Value(1))]),
        ),
        Rule::IndexWrite => (
            None,
            Some((
                vec!["s 4", "s", "9 4", "9 4"],
                vec![("self", Argument::Value(2)), ("index", Argument::Value(1)), A],
            )),
        ),
        Rule::Einsum => both(
            (vec!["s 4", "4 3", "s 3"], vec![text("equation", "bi, ij -> bj"), list("tensors", &[0, 1])]),
            (vec!["s 4", "s 4", "s s"], vec![text("equation", "id,jd->ij"), list("tensors", &[0, 1])]),
        ),
        Rule::Distance => both((vec!["s 4", "9 4", "s 9"], vec![A, B]), (vec!["s 4", "s 4", "s s"], vec![A, B])),
        Rule::Paired(_) => both(
            (vec!["s 4", "s 4", "s"], vec![A, B, int("dim", 1)]),
            (vec!["s 4", "s 4", "4"], vec![A, B, int("dim", 0)]),
        ),
        Rule::Samples => only((vec!["s 1 8 8", "s 4 4 2", "s 1 4 4"], vec![A, B])),
        Rule::Cell => only((vec!["s 4", "s 8", "s 8"], vec![A, list("hx", &[1])])),
        Rule::Convolution => only((vec!["s 3 8", "4 3 3", "s 4 6"], vec![A, B])),
        Rule::Loss => {
            both((vec!["s 4", "s 4", "s 4"], vec![A, B, int("reduction", 0)]), (vec!["s 4", "s 4", ""], vec![A, B]))
        }
        Rule::Repeat => only((vec!["s 4", "s 8"], vec![A, ints("repeats", &[1, 2])])),
        Rule::Diagonal => {
            let dims = |left, right| vec![A, int("dim1", left), int("dim2", right)];
            both((vec!["s 4 4", "s 4"], dims(1, 2)), (vec!["s 4", "4"], dims(0, 1)))
        }
        other => unreachable!("{other:?} is of another group"),
    }
}

/// Returns the cases of operators that move elements, and of the rest.
fn moves(name: &str, rule: Rule) -> Cases {
    match rule {
        Rule::Whole => (None, Some((square(), vec![A]))),
        Rule::Reshape => only((vec!["s 3 4", "s 12"], vec![A])),
        Rule::Transpose => only((vec!["s 3 4", "s 4 3"], vec![A, int("dim0", 1), int("dim1", 2)])),
        Rule::TransposeLast => only((vec!["s 3 4", "s 4 3"], vec![A])),
        Rule::Move => only((vec!["s 3 4", "s 4 3"], vec![A, ints("source", &[2]), ints("destination", &[1])])),
        Rule::Permute if name == "permute" => only((vec!["s 3 4", "s 4 3"], vec![A, ints("dims", &[0, 2, 1])])),
        // A matrix of rows becomes one of columns.
        Rule::Permute => (None, Some((vec!["s 4", "4 s"], vec![A]))),
        Rule::Unsqueeze => only((vec!["s 3", "s 1 3"], vec![A, int("dim", 1)])),
        Rule::Squeeze => both((vec!["s 1 3", "s 3"], vec![A, int("dim", 1)]), (vec!["s 3", "s 3"], vec![A])),
        Rule::Expand => only((vec!["s 1", "s 4"], vec![A])),
        Rule::Along(argument) => {
            // A slice from the start on would be the whole.
            let along = |dim| vec![A, ints(argument, &[dim]), int("start", 1)];
            both((square(), along(1)), (square(), along(0)))
        }
        Rule::Select | Rule::Unbind => {
            both((vec!["s 3 4", "s 4"], vec![A, int("dim", 1)]), (vec!["s 4", "4"], vec![A, int("dim", 0)]))
        }
        Rule::Cat => {
            let parts = |dim| vec![list("tensors", &[0, 1]), int("dim", dim)];
            both((vec!["s 3", "s 4", "s 7"], parts(1)), (vec!["s 3", "s 3", "2*s 3"], parts(0)))
        }
        Rule::Stack => only((vec!["s 3", "s 3", "s 2 3"], vec![list("tensors", &[0, 1]), int("dim", 1)])),
        Rule::Recurrent => {
            let layer = |first| vec![A, flag("train", false), flag("batch_first", first)];
            both((vec!["s 3 4", "s 3 8"], layer(true)), (vec!["s 3 4", "s 3 8"], layer(false)))
        }
        Rule::FilledLike => only((vec!["s 3", "s 5"], vec![A])),
        Rule::Pad => both(
            (vec!["s 3", "s 5"], vec![A, ints("pad", &[1, 1])]),
            (vec!["s 3", "s 5"], vec![A, ints("pad", &[1, 1, 1, 1])]),
        ),
        Rule::Dropout => only((square(), vec![A, flag("train", false)])),
        // Other tests have these, because they need several operators.
        Rule::EmbeddingBag | Rule::Filled | Rule::Arange | Rule::Size | Rule::Assertion => (None, None),
        other => unreachable!("{other:?} is of another group"),
    }
}

#[test]
fn each_operator_of_the_table_is_decided() {
    // Programs of several operators, below, have these.
    let elsewhere = [Rule::Filled, Rule::Arange, Rule::Size, Rule::Assertion, Rule::EmbeddingBag];
    for (names, rule) in crate::operators::TABLE {
        for name in names.split_ascii_whitespace() {
            let (apart, coupled) = cases(name, rule);
            assert!(apart.is_some() || coupled.is_some() || elsewhere.contains(&rule), "{name} has no case");
            if let Some((tensors, arguments)) = apart {
                assert_eq!(decided(name, &tensors, &arguments), Verdict::Proven, "{name}");
            }
            if let Some((tensors, arguments)) = coupled {
                let verdict = decided(name, &tensors, &arguments);
                assert!(matches!(verdict, Verdict::Coupled(_)), "{name} {verdict:?}");
            }
        }
    }
}
