//! Binds the configuration's inputs to arguments of `forward`, by Triton's conventions.

use std::collections::BTreeSet;
use std::ffi::CString;

use weir_protocol::DataType;
use weir_runtime::backend::{LoadError, TensorConfig};

use crate::execution::by_index;
use crate::libtorch::element;
use crate::module::{Argument, ArgumentKind, ScalarKind};

/// The binding of a signature's inputs, in the signature's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Each input is an argument.
    Positional {
        /// Index of the argument, by input.
        argument_of: Vec<usize>,
        /// Number of arguments of `forward`.
        arguments: usize,
    },
    /// All inputs are entries of a single dict, under these keys.
    Dict(Vec<CString>),
}

/// Binds inputs to arguments: by name if all inputs are named like arguments, by index if all are named
/// `NAME__INDEX`, otherwise in order.
pub(crate) fn inputs(model: &str, arguments: &[Argument], inputs: &[TensorConfig]) -> Result<Binding, LoadError> {
    if let [argument] = arguments
        && argument.kind == ArgumentKind::TensorDict
    {
        return dict(inputs);
    }
    let bindable = bindable(model, arguments)?;
    check_count(model, arguments, &bindable, inputs)?;
    let argument_of = match by_name(arguments, inputs).or_else(|| by_index(inputs)) {
        Some(named) => named,
        None => {
            let ordered = in_order(arguments, &bindable, inputs.len());
            check_order(model, arguments, inputs, &ordered)?;
            ordered
        }
    };
    for (input, &index) in inputs.iter().zip(&argument_of) {
        check_argument(model, arguments, &bindable, input, index)?;
    }
    check_bound_once(model, arguments, &argument_of)?;
    Ok(Binding::Positional { argument_of, arguments: arguments.len() })
}

fn dict(inputs: &[TensorConfig]) -> Result<Binding, LoadError> {
    let keys = inputs.iter().map(|input| {
        if input.datatype == DataType::Bytes {
            let name = &input.name;
            return Err(LoadError::Config(format!(
                "input '{name}' is a TYPE_STRING, but the model takes a Dict[str, Tensor]"
            )));
        }
        CString::new(input.name.as_str())
            .map_err(|_| LoadError::Config(format!("input name {:?} contains a NUL byte", input.name)))
    });
    Ok(Binding::Dict(keys.collect::<Result<_, _>>()?))
}

/// Returns the indices of the arguments that an input can be bound to. Returns an error if another argument is
/// required.
fn bindable(model: &str, arguments: &[Argument]) -> Result<Vec<usize>, LoadError> {
    let mut bindable = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        match argument.kind {
            ArgumentKind::Tensor
            | ArgumentKind::Strings
            | ArgumentKind::TensorList
            | ArgumentKind::Scalar(_)
            | ArgumentKind::Numbers(_) => bindable.push(index),
            ArgumentKind::TensorDict | ArgumentKind::Other if argument.optional => {}
            ArgumentKind::TensorDict | ArgumentKind::Other => {
                let Argument { name, type_text, .. } = argument;
                return Err(LoadError::Config(format!(
                    "unable to load model '{model}', argument '{name}' of forward is of type {type_text}: \
                     only tensors, numbers, strings, lists of these or a single Dict[str, Tensor] are supported; \
                     give it a default"
                )));
            }
        }
    }
    Ok(bindable)
}

fn check_count(
    model: &str,
    arguments: &[Argument],
    bindable: &[usize],
    inputs: &[TensorConfig],
) -> Result<(), LoadError> {
    let required = bindable.iter().filter(|index| !arguments[**index].optional).count();
    if (required..=bindable.len()).contains(&inputs.len()) {
        return Ok(());
    }
    Err(LoadError::Config(format!(
        "unable to load model '{model}', configuration expects {} inputs, model provides {}",
        inputs.len(),
        bindable.len()
    )))
}

/// Returns the first `count` bindable arguments in order. Numbers with a default come last, because an input without a
/// matching name rarely means one of them.
fn in_order(arguments: &[Argument], bindable: &[usize], count: usize) -> Vec<usize> {
    let is_setting = |index: &usize| {
        let argument = &arguments[*index];
        argument.optional && argument.kind.is_one_value()
    };
    let mut ordered = bindable.to_vec();
    ordered.sort_by_key(is_setting); // stable
    ordered.truncate(count);
    ordered
}

/// Refuses inputs bound in order if an input has the name of another argument than the one it is bound to.
fn check_order(
    model: &str,
    arguments: &[Argument],
    inputs: &[TensorConfig],
    ordered: &[usize],
) -> Result<(), LoadError> {
    for (input, &index) in inputs.iter().zip(ordered) {
        let name = &input.name;
        let named = arguments.iter().position(|argument| argument.name == *name);
        if named.is_some_and(|named| named != index) {
            let names: Vec<&str> = arguments.iter().map(|argument| &*argument.name).collect();
            return Err(LoadError::Config(format!(
                "unable to load model '{model}', input '{name}' is named like an argument of forward, but not all \
                 inputs are, and in order it would be '{}': name all inputs like arguments ({}), or none",
                arguments[index].name,
                names.join(", ")
            )));
        }
    }
    Ok(())
}

fn by_name(arguments: &[Argument], inputs: &[TensorConfig]) -> Option<Vec<usize>> {
    let position = |input: &TensorConfig| arguments.iter().position(|argument| argument.name == input.name);
    inputs.iter().map(position).collect()
}

fn check_argument(
    model: &str,
    arguments: &[Argument],
    bindable: &[usize],
    input: &TensorConfig,
    index: usize,
) -> Result<(), LoadError> {
    let name = &input.name;
    if !bindable.contains(&index) {
        return Err(LoadError::Config(format!(
            "The input {name} in the model configuration refers to an input index which doesn't exist. \
             This model has {} inputs",
            bindable.len()
        )));
    }
    if !takes(arguments[index].kind, input.datatype) {
        return Err(LoadError::Config(format!(
            "unable to load model '{model}', configuration expects datatype {} for input '{name}', \
             model provides {}",
            element::config_name(input.datatype),
            arguments[index].type_text
        )));
    }
    check_dims(model, &arguments[index], input)
}

/// Returns true if elements of that datatype can become the argument.
pub(crate) fn takes(kind: ArgumentKind, datatype: DataType) -> bool {
    match kind {
        ArgumentKind::Strings | ArgumentKind::Scalar(ScalarKind::Str) => datatype == DataType::Bytes,
        ArgumentKind::Scalar(kind) | ArgumentKind::Numbers(kind) => is_number(kind, datatype),
        ArgumentKind::Tensor | ArgumentKind::TensorList | ArgumentKind::TensorDict | ArgumentKind::Other => {
            datatype != DataType::Bytes
        }
    }
}

/// Returns true if every element of that datatype is a valid number of that kind. UINT64 is excluded, because it
/// exceeds `int`.
fn is_number(kind: ScalarKind, datatype: DataType) -> bool {
    use DataType::{Bf16, Bool, Bytes, Fp16, Fp32, Fp64, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64};
    match datatype {
        Bool => kind == ScalarKind::Bool,
        Int8 | Int16 | Int32 | Int64 | Uint8 | Uint16 | Uint32 => kind == ScalarKind::Int,
        Fp16 | Bf16 | Fp32 | Fp64 => kind == ScalarKind::Float,
        Uint64 | Bytes => false,
    }
}

/// Returns the dimensions that the model takes or returns, without the batch dimension.
pub(crate) fn model_dims(config: &TensorConfig) -> &[i64] {
    config.reshape.as_ref().unwrap_or(&config.dims)
}

/// Checks the dimensions of an input for a number, which has one element, and for a list of numbers, which has one
/// dimension.
fn check_dims(model: &str, argument: &Argument, input: &TensorConfig) -> Result<(), LoadError> {
    let dims = model_dims(input);
    let (fits, wanted) = match argument.kind {
        ArgumentKind::Scalar(_) => (dims.iter().all(|&dim| dim == 1), "[1]"),
        ArgumentKind::Numbers(_) => (dims.len() == 1, "[-1]"),
        ArgumentKind::Tensor
        | ArgumentKind::Strings
        | ArgumentKind::TensorList
        | ArgumentKind::TensorDict
        | ArgumentKind::Other => (true, ""),
    };
    if fits {
        return Ok(());
    }
    let (name, Argument { type_text, .. }) = (&input.name, argument);
    Err(LoadError::Config(format!(
        "unable to load model '{model}', input '{name}' of dims {dims:?} is bound to an argument of type \
         {type_text}, which takes dims {wanted}"
    )))
}

/// Checks that no argument is bound twice, and every required one once.
fn check_bound_once(model: &str, arguments: &[Argument], chosen: &[usize]) -> Result<(), LoadError> {
    let distinct: BTreeSet<usize> = chosen.iter().copied().collect();
    if distinct.len() < chosen.len() {
        return Err(LoadError::Config(format!(
            "unable to load model '{model}', two inputs of the configuration are bound to one argument of forward"
        )));
    }
    let missing =
        arguments.iter().enumerate().find(|(index, argument)| !argument.optional && !distinct.contains(index));
    match missing {
        None => Ok(()),
        Some((_, argument)) => Err(LoadError::Config(format!(
            "unable to load model '{model}', no input of the configuration is bound to argument '{}' of forward",
            argument.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(name: &str, kind: ArgumentKind, optional: bool) -> Argument {
        Argument {
            name: name.to_owned(),
            type_text: format!("{kind:?}"),
            kind,
            optional,
            mutated: false,
            example: None,
        }
    }

    fn tensors(names: &[&str], datatype: DataType) -> Vec<TensorConfig> {
        let tensor = |name: &&str| TensorConfig::new(*name, datatype, vec![4]);
        names.iter().map(tensor).collect()
    }

    fn bound(names: &[&str]) -> Result<Vec<usize>, String> {
        let arguments = [
            argument("a", ArgumentKind::Tensor, false),
            argument("b", ArgumentKind::Tensor, false),
            argument("c", ArgumentKind::Tensor, true),
            argument("n", ArgumentKind::Other, true),
        ];
        match inputs("m", &arguments, &tensors(names, DataType::Fp32)) {
            Ok(Binding::Positional { argument_of, .. }) => Ok(argument_of),
            Ok(Binding::Dict(_)) => Err("a dict".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn inputs_are_bound_by_name_index_or_order() {
        assert_eq!(bound(&["b", "a"]), Ok(vec![1, 0]));
        assert_eq!(bound(&["X__1", "Y__0"]), Ok(vec![1, 0]));
        assert_eq!(bound(&["x", "y", "z"]), Ok(vec![0, 1, 2]));
        assert_eq!(bound(&["a", "INPUT__0"]), Ok(vec![0, 1]));
    }

    #[test]
    fn an_input_is_never_another_argument_than_it_is_named_like() {
        let error = bound(&["b", "INPUT__0"]).unwrap_err();
        let words = "input 'b' is named like an argument of forward, but not all inputs are, and in order it would \
                     be 'a': name all inputs like arguments (a, b, c, n), or none";
        assert!(error.contains(words), "{error}");
        assert!(bound(&["left", "a"]).unwrap_err().contains("input 'a' is"));
        assert_eq!(bound(&["left", "b"]), Ok(vec![0, 1]));
    }

    #[test]
    fn mismatches_are_refused_by_name() {
        let text = "unable to load model 'm', configuration expects 1 inputs, model provides 3";
        assert_eq!(bound(&["a"]), Err(text.to_owned()));
        assert!(bound(&["I__0", "I__7"]).unwrap_err().contains("I__7"));
        assert!(bound(&["I__0", "I__3"]).unwrap_err().contains("I__3"));
        assert!(bound(&["I__0", "J__0"]).unwrap_err().contains("two inputs"));
        assert!(bound(&["a", "c"]).unwrap_err().contains("argument 'b'"));
    }

    #[test]
    fn lists_of_strings_need_bytes() {
        let arguments = [argument("texts", ArgumentKind::Strings, false)];
        assert!(inputs("m", &arguments, &tensors(&["x"], DataType::Bytes)).is_ok());
        let error = inputs("m", &arguments, &tensors(&["x"], DataType::Fp32)).unwrap_err();
        assert!(error.to_string().contains("TYPE_FP32 for input 'x'"), "{error}");
    }

    #[test]
    fn a_dict_takes_any_names_and_others_need_a_default() {
        let dict = [argument("inputs", ArgumentKind::TensorDict, false)];
        let found = inputs("m", &dict, &tensors(&["l", "r"], DataType::Fp32)).unwrap();
        assert_eq!(found, Binding::Dict(vec![c"l".to_owned(), c"r".to_owned()]));
        let other = [argument("n", ArgumentKind::Other, false)];
        let error = inputs("m", &other, &tensors(&["n"], DataType::Fp32)).unwrap_err();
        assert!(error.to_string().contains("argument 'n'"), "{error}");
    }

    #[test]
    fn numbers_take_their_own_datatypes_and_one_element() {
        let arguments = [
            argument("x", ArgumentKind::Tensor, false),
            argument("steps", ArgumentKind::Scalar(ScalarKind::Int), true),
            argument("sizes", ArgumentKind::Numbers(ScalarKind::Float), true),
        ];
        let bind = |name, datatype, dims: &[i64]| {
            let mut all = tensors(&["x", name], DataType::Fp32);
            all[1].datatype = datatype;
            all[1].dims = dims.to_vec();
            inputs("m", &arguments, &all).map_err(|error| error.to_string())
        };
        assert!(bind("steps", DataType::Int32, &[1]).is_ok());
        assert!(bind("sizes", DataType::Fp64, &[-1]).is_ok());
        let error = bind("steps", DataType::Fp32, &[1]).unwrap_err();
        assert!(error.contains("TYPE_FP32 for input 'steps'"), "{error}");
        let error = bind("steps", DataType::Int64, &[4]).unwrap_err();
        assert!(error.ends_with("which takes dims [1]"), "{error}");
        let error = bind("sizes", DataType::Fp32, &[2, 2]).unwrap_err();
        assert!(error.ends_with("which takes dims [-1]"), "{error}");
    }

    #[test]
    fn nameless_inputs_go_to_tensors_before_numbers_with_a_default() {
        let arguments = [
            argument("x", ArgumentKind::Tensor, false),
            argument("steps", ArgumentKind::Scalar(ScalarKind::Int), true),
            argument("mask", ArgumentKind::Tensor, true),
        ];
        let found = inputs("m", &arguments, &tensors(&["first", "second"], DataType::Fp32));
        assert!(matches!(&found, Ok(Binding::Positional { argument_of, .. }) if *argument_of == [0, 2]), "{found:?}");
    }
}
