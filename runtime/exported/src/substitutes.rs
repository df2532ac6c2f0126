//! Operators that a Python library registers for itself, and operators of libtorch that compute the same.

use crate::expression::Expression;
use crate::graph::{Argument, Node, Operator, Program, ValueId, ValueKind};

/// Operator that multiplies each group of rows by a matrix of that group, as transformers computes mixtures of experts.
/// The arguments are `input`, `weight` and the ends of the groups.
const GROUPED: &str = "transformers::grouped_mm_fallback";

/// libtorch's operator takes only rows whose size in bytes is a multiple of this.
const ALIGNMENT: i64 = 16;

/// Operators whose result is memory that no operator has written, which may hold data of other requests: the operator that takes
/// their place, and the argument that it does not have.
const UNWRITTEN: [(&str, &str, &str); 6] = [
    ("aten::empty", "aten::zeros", "memory_format"),
    ("aten::empty_like", "aten::zeros_like", ""),
    ("aten::empty_permuted", "aten::zeros", "physical_layout"),
    ("aten::empty_strided", "aten::zeros", "stride"),
    ("aten::new_empty", "aten::new_zeros", ""),
    ("aten::new_empty_strided", "aten::new_zeros", "stride"),
];

/// Lets an operator that returns unwritten memory return zeros.
pub(crate) fn write_zeros(node: &mut Node) {
    let Operator::Registered { name, overload } = &mut node.operator else { return };
    let Some((_, zeros, missing)) = UNWRITTEN.iter().find(|(known, ..)| known == name) else { return };
    (*zeros).clone_into(name);
    if overload == "memory_format" {
        overload.clear();
    }
    node.arguments.retain(|(name, _)| name != missing);
}

impl Program {
    /// Replaces the node's operator, if libtorch has one for its operands.
    pub(crate) fn substitute(&self, node: &mut Node) {
        let is_grouped = matches!(&node.operator, Operator::Registered { name, .. } if name == GROUPED);
        let mut matrices = ["input", "weight"].iter().filter_map(|name| node.argument(name));
        if !is_grouped || !matrices.all(|matrix| self.is_aligned(matrix)) {
            return;
        }
        node.operator = Operator::Registered { name: "aten::_grouped_mm".to_owned(), overload: String::new() };
        for (name, _) in &mut node.arguments {
            match name.as_str() {
                "input" => "self".clone_into(name),
                "weight" => "mat2".clone_into(name),
                _ => {}
            }
        }
    }

    /// True if the rows of a matrix or of several, which may be transposed, are aligned.
    fn is_aligned(&self, matrix: &Argument) -> bool {
        let Argument::Value(value) = matrix else { return false };
        let Some(bytes) = self.element_bytes(*value) else { return false };
        let ValueKind::Tensor(sizes) = &self.values[*value].kind else { return false };
        sizes.iter().skip(1).all(|size| match size {
            Some(Expression::Number(size)) => size.saturating_mul(bytes) % ALIGNMENT == 0,
            Some(_) | None => false,
        })
    }

    /// Returns the size of an element of half or single precision.
    fn element_bytes(&self, value: ValueId) -> Option<i64> {
        match self.values[value].element_type {
            Some(5 | 15) => Some(2),
            Some(6) => Some(4),
            Some(_) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Returned, Value};

    /// Returns the name of the operator and those of its arguments.
    fn substituted(sizes: [&str; 2], element_type: i32) -> (String, Vec<String>) {
        let sizes = sizes.map(|text| text.split(' ').map(Expression::parse).collect());
        let value =
            |sizes| Value { name: String::new(), kind: ValueKind::Tensor(sizes), element_type: Some(element_type) };
        let values = sizes.map(value).into();
        let arguments =
            ["input", "weight", "offs"].map(|name| (name.to_owned(), Argument::Value(usize::from(name == "weight"))));
        let mut node = Node {
            operator: Operator::Registered { name: GROUPED.to_owned(), overload: String::new() },
            place: String::new(),
            arguments: arguments.into(),
            outputs: vec![Returned::Nothing],
            guards: Vec::new(),
        };
        let (ranges, none) = (std::collections::BTreeMap::new(), Vec::new);
        let program = Program {
            inputs: Vec::new(),
            weights: Vec::new(),
            outputs: Vec::new(),
            torch_version: None,
            values,
            nodes: none(),
            ranges,
            guards: Vec::new(),
        };
        program.substitute(&mut node);
        (node.operator.to_string(), node.arguments.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn unwritten_memory_is_zero() {
        let operator =
            |name: &str, overload: &str| Operator::Registered { name: name.to_owned(), overload: overload.to_owned() };
        let zeros = |name, overload, arguments: &[&str]| {
            let arguments = arguments.iter().map(|name| ((*name).to_owned(), Argument::None)).collect();
            let (operator, place) = (operator(name, overload), String::new());
            let mut node = Node { operator, place, arguments, outputs: Vec::new(), guards: Vec::new() };
            write_zeros(&mut node);
            (node.operator.to_string(), node.arguments.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        let named =
            |name: &str, arguments: &[&str]| (name.to_owned(), arguments.iter().map(|it| (*it).to_owned()).collect());
        let of_sizes = zeros("aten::empty", "memory_format", &["size", "dtype", "memory_format"]);
        assert_eq!(of_sizes, named("aten::zeros", &["size", "dtype"]));
        let of_strides = zeros("aten::new_empty_strided", "", &["self", "size", "stride"]);
        assert_eq!(of_strides, named("aten::new_zeros", &["self", "size"]));
        assert_eq!(zeros("aten::empty", "out", &["size", "out"]), named("aten::zeros.out", &["size", "out"]));
        assert_eq!(zeros("aten::ones", "", &["size"]), named("aten::ones", &["size"]));
    }

    #[test]
    fn products_of_groups_are_libtorchs_if_their_rows_are_aligned() {
        let (operator, names) = substituted(["7*s 8", "4 8 12"], 6);
        assert_eq!(
            (operator.as_str(), names),
            ("aten::_grouped_mm", ["self", "mat2", "offs"].map(str::to_owned).into())
        );
        assert_eq!(substituted(["s 16", "4 16 8"], 15).0, "aten::_grouped_mm");
        for (sizes, element_type) in [(["s 6", "4 6 8"], 6), (["s 8", "4 8 12"], 15), (["s 8", "4 8 8"], 7)] {
            assert_eq!(substituted(sizes, element_type).0, GROUPED);
        }
    }
}
