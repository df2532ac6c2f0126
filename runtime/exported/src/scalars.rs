//! Python's functions on symbolic numbers, as operators of TorchScript's table, which take and return numbers.

use crate::graph::{Argument, Number, Program};

/// Returns name and overload of the operator for a function with these arguments; `None` if there is none.
pub(crate) fn operator(
    program: &Program,
    function: &str,
    arguments: &[(String, Argument)],
) -> Option<(&'static str, &'static str)> {
    let kinds: Option<Vec<Number>> = arguments.iter().map(|(_, argument)| number(program, argument)).collect();
    let name = function.rsplit('.').next()?;
    find(name, &kinds?)
}

fn number(program: &Program, argument: &Argument) -> Option<Number> {
    match argument {
        Argument::Int(_) => Some(Number::Int),
        Argument::Float(_) => Some(Number::Float),
        Argument::Bool(_) => Some(Number::Bool),
        Argument::Value(value) => program.values[*value].kind.number(),
        Argument::None | Argument::Text(_) | Argument::Device | Argument::List(_) => None,
    }
}

fn find(name: &str, kinds: &[Number]) -> Option<(&'static str, &'static str)> {
    use Number::{Bool, Float, Int};
    let arithmetic = match kinds {
        [Int, Int] => "int",
        [Float, Float] => "float",
        [Int, Float] => "int_float",
        [Float, Int] => "float_int",
        _ => "",
    };
    let binary = [
        ("add", "aten::add"),
        ("sub", "aten::sub"),
        ("mul", "aten::mul"),
        ("eq", "aten::eq"),
        ("ne", "aten::ne"),
        ("lt", "aten::lt"),
        ("le", "aten::le"),
        ("gt", "aten::gt"),
        ("ge", "aten::ge"),
        ("floordiv", "aten::floordiv"),
        ("mod", "aten::remainder"),
        ("sym_max", "prim::max"),
        ("sym_min", "prim::min"),
    ];
    if let Some((_, operator)) = binary.iter().find(|(known, _)| *known == name).filter(|_| !arithmetic.is_empty()) {
        return Some((operator, arithmetic));
    }
    match (name, kinds) {
        ("truediv", [Int, Int]) => Some(("aten::div", "int")),
        ("truediv", [Float, Float]) => Some(("aten::div", "float")),
        ("pow", [Int, Int]) => Some(("aten::pow", "int_to_int")),
        ("neg", [Int]) => Some(("aten::neg", "int")),
        ("neg", [Float]) => Some(("aten::neg", "float")),
        ("sym_float", [Int]) => Some(("aten::Float", "int")),
        ("sym_int" | "trunc", [Float]) => Some(("aten::Int", "float")),
        ("sym_not", [Bool]) => Some(("aten::__not__", "")),
        ("and_", [Bool, Bool]) => Some(("aten::__and__", "bool")),
        ("or_", [Bool, Bool]) => Some(("aten::__or__", "bool")),
        ("eq", [Bool, Bool]) => Some(("aten::eq", "bool")),
        _ => None,
    }
}
