//! Which input of the configuration goes to which argument of `forward`, and which of the model's
//! outputs has which name. The conventions are Triton's.

use std::collections::BTreeSet;
use std::ffi::CString;

use weir_protocol::DataType;
use weir_runtime::backend::{LoadError, TensorConfig};

use crate::element;
use crate::module::{Argument, Kind};

/// Where the inputs of a signature go, in the signature's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Each to an argument.
    Positional {
        /// The argument's index, by input.
        argument_of: Vec<usize>,
        /// How many arguments there are.
        arguments: usize,
    },
    /// All into the one dict, under these keys.
    Dict(Vec<CString>),
}

/// Binds inputs to arguments: by the arguments' names where all inputs bear one, by index where all
/// are called `NAME__INDEX`, else in order.
pub(crate) fn inputs(
    model: &str,
    arguments: &[Argument],
    inputs: &[TensorConfig],
) -> Result<Binding, LoadError> {
    if let [argument] = arguments
        && argument.kind == Kind::TensorDict
    {
        return dict(inputs);
    }
    let sendable = sendable(model, arguments)?;
    check_count(model, arguments, &sendable, inputs)?;
    let argument_of = by_name(arguments, inputs)
        .or_else(|| by_index(inputs))
        .unwrap_or_else(|| sendable[..inputs.len()].to_vec());
    for (input, &index) in inputs.iter().zip(&argument_of) {
        check_argument(model, arguments, &sendable, input, index)?;
    }
    check_cover(model, arguments, &argument_of)?;
    Ok(Binding::Positional {
        argument_of,
        arguments: arguments.len(),
    })
}

/// Which of the model's outputs each output of the configuration is.
pub(crate) fn outputs(outputs: &[TensorConfig]) -> Vec<usize> {
    by_index(outputs).unwrap_or_else(|| (0..outputs.len()).collect())
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
            .map_err(|_| LoadError::Config(format!("input name {:?} holds a NUL", input.name)))
    });
    Ok(Binding::Dict(keys.collect::<Result<_, _>>()?))
}

/// The arguments an input can go to. One that nothing can go to must have a default.
fn sendable(model: &str, arguments: &[Argument]) -> Result<Vec<usize>, LoadError> {
    let mut sendable = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        match argument.kind {
            Kind::Tensor | Kind::Strings => sendable.push(index),
            Kind::TensorDict | Kind::Other if argument.optional => {}
            Kind::TensorDict | Kind::Other => {
                let Argument {
                    name, type_text, ..
                } = argument;
                return Err(LoadError::Config(format!(
                    "unable to load model '{model}', argument '{name}' of forward is of type {type_text}: \
                     only Tensor, List[str] or a single Dict[str, Tensor] can be sent; give it a default"
                )));
            }
        }
    }
    Ok(sendable)
}

fn check_count(
    model: &str,
    arguments: &[Argument],
    sendable: &[usize],
    inputs: &[TensorConfig],
) -> Result<(), LoadError> {
    let required = sendable
        .iter()
        .filter(|index| !arguments[**index].optional)
        .count();
    if (required..=sendable.len()).contains(&inputs.len()) {
        return Ok(());
    }
    Err(LoadError::Config(format!(
        "unable to load model '{model}', configuration expects {} inputs, model provides {}",
        inputs.len(),
        sendable.len()
    )))
}

fn by_name(arguments: &[Argument], inputs: &[TensorConfig]) -> Option<Vec<usize>> {
    let position = |input: &TensorConfig| {
        arguments
            .iter()
            .position(|argument| argument.name == input.name)
    };
    inputs.iter().map(position).collect()
}

fn by_index(tensors: &[TensorConfig]) -> Option<Vec<usize>> {
    let index = |tensor: &TensorConfig| tensor.name.rsplit_once("__")?.1.parse().ok();
    tensors.iter().map(index).collect()
}

fn check_argument(
    model: &str,
    arguments: &[Argument],
    sendable: &[usize],
    input: &TensorConfig,
    index: usize,
) -> Result<(), LoadError> {
    let name = &input.name;
    if !sendable.contains(&index) {
        return Err(LoadError::Config(format!(
            "The input {name} in the model configuration refers to an input index which doesn't exist. \
             This model has {} inputs",
            sendable.len()
        )));
    }
    let strings = arguments[index].kind == Kind::Strings;
    if strings != (input.datatype == DataType::Bytes) {
        return Err(LoadError::Config(format!(
            "unable to load model '{model}', configuration expects datatype {} for input '{name}', \
             model provides {}",
            element::config_name(input.datatype),
            arguments[index].type_text
        )));
    }
    Ok(())
}

/// No argument twice, and every one that must be given once.
fn check_cover(model: &str, arguments: &[Argument], chosen: &[usize]) -> Result<(), LoadError> {
    let distinct: BTreeSet<usize> = chosen.iter().copied().collect();
    if distinct.len() < chosen.len() {
        return Err(LoadError::Config(format!(
            "unable to load model '{model}', two inputs of the configuration go to one argument of forward"
        )));
    }
    let missing = arguments
        .iter()
        .enumerate()
        .find(|(index, argument)| !argument.optional && !distinct.contains(index));
    match missing {
        None => Ok(()),
        Some((_, argument)) => Err(LoadError::Config(format!(
            "unable to load model '{model}', no input of the configuration goes to argument '{}' of forward",
            argument.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(name: &str, kind: Kind, optional: bool) -> Argument {
        Argument {
            name: name.to_owned(),
            type_text: format!("{kind:?}"),
            kind,
            optional,
            written_to: false,
            example: None,
        }
    }

    fn tensors(names: &[&str], datatype: DataType) -> Vec<TensorConfig> {
        let tensor = |name: &&str| TensorConfig {
            name: (*name).to_owned(),
            datatype,
            dims: vec![4],
            reshape: None,
            optional: false,
        };
        names.iter().map(tensor).collect()
    }

    fn bound(names: &[&str]) -> Result<Vec<usize>, String> {
        let arguments = [
            argument("a", Kind::Tensor, false),
            argument("b", Kind::Tensor, false),
            argument("c", Kind::Tensor, true),
            argument("n", Kind::Other, true),
        ];
        match inputs("m", &arguments, &tensors(names, DataType::Fp32)) {
            Ok(Binding::Positional { argument_of, .. }) => Ok(argument_of),
            Ok(Binding::Dict(_)) => Err("a dict".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn three_conventions() {
        assert_eq!(bound(&["b", "a"]), Ok(vec![1, 0]));
        assert_eq!(bound(&["X__1", "Y__0"]), Ok(vec![1, 0]));
        assert_eq!(bound(&["x", "y", "z"]), Ok(vec![0, 1, 2]));
        assert_eq!(bound(&["a", "INPUT__0"]), Ok(vec![0, 1]));
    }

    #[test]
    fn disagreements_are_named() {
        let text = "unable to load model 'm', configuration expects 1 inputs, model provides 3";
        assert_eq!(bound(&["a"]), Err(text.to_owned()));
        assert!(bound(&["I__0", "I__7"]).unwrap_err().contains("I__7"));
        assert!(bound(&["I__0", "I__3"]).unwrap_err().contains("I__3"));
        assert!(bound(&["I__0", "J__0"]).unwrap_err().contains("two inputs"));
        assert!(bound(&["a", "c"]).unwrap_err().contains("argument 'b'"));
    }

    #[test]
    fn strings_want_strings() {
        let arguments = [argument("texts", Kind::Strings, false)];
        assert!(inputs("m", &arguments, &tensors(&["x"], DataType::Bytes)).is_ok());
        let error = inputs("m", &arguments, &tensors(&["x"], DataType::Fp32)).unwrap_err();
        assert!(
            error.to_string().contains("TYPE_FP32 for input 'x'"),
            "{error}"
        );
    }

    #[test]
    fn a_dict_takes_any_names_and_others_need_a_default() {
        let dict = [argument("inputs", Kind::TensorDict, false)];
        let found = inputs("m", &dict, &tensors(&["l", "r"], DataType::Fp32)).unwrap();
        assert_eq!(found, Binding::Dict(vec![c"l".to_owned(), c"r".to_owned()]));
        let other = [argument("n", Kind::Other, false)];
        let error = inputs("m", &other, &tensors(&["n"], DataType::Fp32)).unwrap_err();
        assert!(error.to_string().contains("argument 'n'"), "{error}");
    }

    #[test]
    fn outputs_go_by_index_or_order() {
        assert_eq!(outputs(&tensors(&["O__1", "O__0"], DataType::Fp32)), [1, 0]);
        assert_eq!(outputs(&tensors(&["sum", "O__0"], DataType::Fp32)), [0, 1]);
    }
}
