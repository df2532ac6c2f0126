//! Reads the typed graph from the JSON of a program.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::Value as Json;

use super::{
    Argument, Dimension, ElementType, Guard, Input, Node, Operator, Output, OutputKind, Payload, Returned, Value,
    ValueId, ValueKind, Weight,
};
use crate::error::ExportedError;
use crate::expression::Expression;
use crate::forbidden;
use crate::format::schema::{
    ArgumentJson, GraphModule, GuardJson, InputSpec, ModuleCallSignature, Named, NamedArgument, NodeJson,
    OptionalTensor, OutputSpec, SymInt, SymOr, TensorMeta,
};
use crate::tree::{self, Step};

/// Longest name of an argument in bytes. Each tensor inside the argument has the name in its path.
const LONGEST_NAME: usize = 1024;

pub(super) fn at(node: &Node, argument: &str, what: String) -> ExportedError {
    ExportedError::Schema(format!("argument '{argument}' of operator {} at {}: {what}", node.operator, node.place))
}

pub(super) fn root_call(module: &GraphModule) -> Option<&ModuleCallSignature> {
    module.module_call_graph.iter().find(|call| call.fqn.is_empty()).and_then(|call| call.signature.as_ref())
}

pub(super) fn guards(texts: &[String]) -> Result<Vec<Expression>, ExportedError> {
    let parse = |text: &String| {
        let unknown = || ExportedError::Unsupported(format!("its guard `{text}` is of an unknown form"));
        Expression::parse(text).ok_or_else(unknown)
    };
    texts.iter().map(parse).collect()
}

/// The values of a graph by their names.
pub(super) struct Builder<'a> {
    module: &'a GraphModule,
    pub(super) values: Vec<Value>,
    by_name: HashMap<&'a str, ValueId>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(module: &'a GraphModule) -> Result<Self, ExportedError> {
        let graph = &module.graph;
        let tensors = graph.tensor_values.iter().map(|(name, meta)| {
            let sizes = meta.sizes.iter().map(expression).collect();
            (name, ValueKind::Tensor(sizes), element_type(meta.dtype).ok())
        });
        let ints = graph.sym_int_values.iter().map(|(name, size)| (name, ValueKind::Int(expression(size)), None));
        let floats = graph.sym_float_values.keys().map(|name| (name, ValueKind::Float, None));
        let bools = graph.sym_bool_values.keys().map(|name| (name, ValueKind::Bool, None));
        let mut builder = Self { module, values: Vec::new(), by_name: HashMap::new() };
        for (name, kind, element_type) in tensors.chain(ints).chain(floats).chain(bools) {
            if builder.by_name.insert(name.as_str(), builder.values.len()).is_some() {
                return Err(ExportedError::Schema(format!("the value '{name}' is defined twice")));
            }
            builder.values.push(Value { name: name.to_owned(), kind, element_type });
        }
        Ok(builder)
    }

    pub(super) fn value(&self, name: &str) -> Result<ValueId, String> {
        self.by_name.get(name).copied().ok_or_else(|| format!("there is no value '{name}'"))
    }

    pub(super) fn inputs(
        &self,
        call: Option<&ModuleCallSignature>,
        payloads: &HashMap<String, Payload>,
    ) -> Result<(Vec<Input>, Vec<Weight>), ExportedError> {
        let paths = self.input_paths(call)?;
        let mut paths = paths.into_iter();
        let (mut inputs, mut weights) = (Vec::new(), Vec::new());
        for spec in &self.module.signature.input_specs {
            match parsed::<InputSpec>(spec, "an input of the signature")? {
                InputSpec::UserInput { arg } => inputs.extend(self.input(&arg, paths.next().unwrap_or_default())?),
                InputSpec::ConstantInput {} => drop(paths.next()),
                InputSpec::Parameter { arg, parameter_name: name }
                | InputSpec::Buffer { arg, buffer_name: name }
                | InputSpec::TensorConstant { arg, tensor_constant_name: name } => {
                    weights.push(self.weight(&arg, name, payloads)?);
                }
            }
        }
        name_uniquely(&mut inputs, &self.values);
        Ok((inputs, weights))
    }

    /// Returns the path of each user input: the name of the argument, then the steps inside the argument.
    fn input_paths(&self, call: Option<&ModuleCallSignature>) -> Result<Vec<Vec<Step>>, ExportedError> {
        let Some(call) = call else { return Ok(Vec::new()) };
        let names = call.forward_arg_names.as_deref().unwrap_or_default();
        if names.iter().any(|name| name.len() > LONGEST_NAME) {
            return Err(ExportedError::Schema("the name of an argument of forward is too long".to_owned()));
        }
        let named = |path: Vec<Step>| match path.as_slice() {
            // The root is the pair of positional and keyword arguments.
            [Step::Position(0), Step::Position(index), inner @ ..] => match names.get(*index) {
                Some(name) => [&[Step::Key(name.clone())], inner].concat(),
                None => Vec::new(),
            },
            [Step::Position(1), inner @ ..] => inner.to_vec(),
            _ => Vec::new(),
        };
        let leaves = tree::leaves(&call.in_spec, &self.module.treespec_namedtuple_fields)?;
        Ok(leaves.into_iter().map(named).collect())
    }

    /// Returns a tensor input; `None` for an argument that is a constant in the program.
    pub(super) fn input(&self, argument: &Json, path: Vec<Step>) -> Result<Option<Input>, ExportedError> {
        let unsupported = |what: &str| ExportedError::Unsupported(format!("an input of forward is {what}"));
        let name = match parsed::<ArgumentJson>(argument, "an input of forward")? {
            ArgumentJson::AsTensor(Named { name }) => name,
            ArgumentJson::AsNone(_)
            | ArgumentJson::AsInt(_)
            | ArgumentJson::AsFloat(_)
            | ArgumentJson::AsBool(_)
            | ArgumentJson::AsString(_) => return Ok(None),
            _ => return Err(unsupported("a symbolic number: pass it as a tensor")),
        };
        let value = self.value(&name).map_err(ExportedError::Schema)?;
        let meta = self.meta(&name)?;
        Ok(Some(Input {
            name,
            element_type: element_type(meta.dtype).map_err(ExportedError::Unsupported)?,
            dimensions: meta.sizes.iter().map(dimension).collect(),
            example: meta.sizes.iter().map(hint).collect(),
            path,
            value,
        }))
    }

    fn meta(&self, name: &str) -> Result<&TensorMeta, ExportedError> {
        let meta = self.module.graph.tensor_values.get(name);
        meta.ok_or_else(|| ExportedError::Schema(format!("the tensor '{name}' has no description")))
    }

    pub(super) fn weight(
        &self,
        argument: &Named,
        name: String,
        payloads: &HashMap<String, Payload>,
    ) -> Result<Weight, ExportedError> {
        let payload = payloads.get(&name);
        let payload = payload.ok_or_else(|| ExportedError::Archive(format!("it has no elements of '{name}'")))?;
        let Some(meta) = &payload.tensor else {
            return Err(ExportedError::Unsupported(format!(
                "'{name}' is a pickled object, which would be code: save the result of \
                 program.run_decompositions({{}}), in which weights of other classes are plain tensors"
            )));
        };
        let fixed = |sizes: &[SymInt]| sizes.iter().map(fixed).collect::<Option<Vec<_>>>();
        let (sizes, strides, offset) = (fixed(&meta.sizes), fixed(&meta.strides), self::fixed(&meta.storage_offset));
        let (Some(sizes), Some(strides), Some(offset)) = (sizes, strides, offset) else {
            return Err(ExportedError::Schema(format!("the sizes of '{name}' are not numbers")));
        };
        // 7 is a strided layout.
        if meta.layout.is_some_and(|layout| layout != 7) {
            return Err(ExportedError::Unsupported(format!("'{name}' is a sparse tensor")));
        }
        Ok(Weight {
            element_type: element_type(meta.dtype).map_err(ExportedError::Unsupported)?,
            value: self.value(&argument.name).map_err(ExportedError::Schema)?,
            payload: payload.clone(),
            name,
            sizes,
            strides,
            offset,
        })
    }

    pub(super) fn outputs(&self, call: Option<&ModuleCallSignature>) -> Result<Vec<Output>, ExportedError> {
        let paths = match call {
            Some(call) => tree::leaves(&call.out_spec, &self.module.treespec_namedtuple_fields)?,
            None => Vec::new(),
        };
        let mut outputs = Vec::new();
        let mut index = 0;
        for spec in &self.module.signature.output_specs {
            let argument = match parsed::<OutputSpec>(spec, "an output of the signature")? {
                OutputSpec::UserOutput { arg } | OutputSpec::LossOutput { arg } => arg,
                OutputSpec::UserInputMutation {} => continue,
                OutputSpec::BufferMutation { buffer_name: name }
                | OutputSpec::ParameterMutation { parameter_name: name } => return Err(stateful(&name)),
            };
            let default = [Step::Position(index)];
            let path = paths.get(index).filter(|path| !path.is_empty()).map_or(default.as_slice(), Vec::as_slice);
            outputs.extend(self.output(&argument, tree::joined(path))?);
            index += 1;
        }
        if outputs.is_empty() {
            return Err(ExportedError::Unsupported("it returns no tensor".to_owned()));
        }
        let mut paths = BTreeSet::new();
        match outputs.iter().find(|output| !paths.insert(&output.path)) {
            Some(Output { path, .. }) => Err(ExportedError::Unsupported(format!(
                "two outputs are named '{path}': rename a key that forward returns"
            ))),
            None => Ok(outputs),
        }
    }

    pub(super) fn output(&self, argument: &Json, path: String) -> Result<Option<Output>, ExportedError> {
        // Constant outputs are left out, because they are the same for every request.
        let (ArgumentJson::AsTensor(Named { name })
        | ArgumentJson::AsSymInt(SymOr::AsName(name))
        | ArgumentJson::AsSymFloat(SymOr::AsName(name))
        | ArgumentJson::AsSymBool(SymOr::AsName(name))) = parsed(argument, "an output of forward")?
        else {
            return Ok(None);
        };
        let value = self.value(&name).map_err(ExportedError::Schema)?;
        let kind = match self.values[value].kind.number() {
            Some(number) => OutputKind::Number(number),
            None => {
                let meta = self.meta(&name)?;
                let element_type = element_type(meta.dtype).map_err(ExportedError::Unsupported)?;
                OutputKind::Tensor(element_type, meta.sizes.iter().map(dimension).collect())
            }
        };
        Ok(Some(Output { path, kind, value }))
    }

    pub(super) fn nodes(&self) -> Result<Vec<Node>, ExportedError> {
        self.module.graph.nodes.iter().enumerate().map(|(index, node)| self.node(index, node)).collect()
    }

    pub(super) fn node(&self, index: usize, json: &NodeJson) -> Result<Node, ExportedError> {
        let place = match &json.name {
            Some(name) => format!("'{name}'"),
            None => format!("node {index}"),
        };
        let operator = operator(&json.target, &place)?;
        let mut node = Node { operator, place, arguments: Vec::new(), outputs: Vec::new(), guards: Vec::new() };
        for GuardJson { condition, expected } in &json.guards {
            let condition = self.value(condition).map_err(|what| refused(&node, "a condition", &what))?;
            node.guards.push(Guard { condition, expected: *expected });
        }
        for NamedArgument { name, arg } in &json.inputs {
            let argument = argument_of(arg).and_then(|argument| self.argument(argument));
            let argument = argument.and_then(|argument| harmless(&node.operator, name, argument));
            let argument = argument.map_err(|what| refused(&node, &format!("argument '{name}'"), &what))?;
            node.arguments.push((name.clone(), argument));
        }
        for output in &json.outputs {
            let returned = argument_of(output).and_then(|argument| self.returned(argument));
            let returned = returned.map_err(|what| refused(&node, "an output", &what))?;
            node.outputs.push(returned);
        }
        Ok(node)
    }

    pub(super) fn argument(&self, json: ArgumentJson) -> Result<Argument, String> {
        let tensor = |named: Named| self.value(&named.name).map(Argument::Value);
        let optional = |tensor: OptionalTensor| match tensor {
            OptionalTensor::AsTensor(named) => self.value(&named.name).map(Argument::Value),
            OptionalTensor::AsNone(_) => Ok(Argument::None),
        };
        let symbolic = |number: SymOr| match number {
            SymOr::AsName(name) => self.value(&name).map(Argument::Value),
            SymOr::AsInt(number) => Ok(Argument::Int(number)),
            SymOr::AsFloat(number) => Ok(Argument::Float(number.0)),
            SymOr::AsBool(value) => Ok(Argument::Bool(value)),
        };
        Ok(match json {
            ArgumentJson::AsNone(_) => Argument::None,
            ArgumentJson::AsTensor(named) => tensor(named)?,
            ArgumentJson::AsTensors(all) => list(all, tensor)?,
            ArgumentJson::AsOptionalTensor(one) => optional(one)?,
            ArgumentJson::AsOptionalTensors(all) => list(all, optional)?,
            ArgumentJson::AsInt(number) => Argument::Int(number),
            ArgumentJson::AsInts(all) => list(all, |number| Ok(Argument::Int(number)))?,
            ArgumentJson::AsFloat(number) => Argument::Float(number.0),
            ArgumentJson::AsFloats(all) => list(all, |number| Ok(Argument::Float(number.0)))?,
            ArgumentJson::AsString(text) => Argument::Text(text),
            ArgumentJson::AsBool(value) => Argument::Bool(value),
            ArgumentJson::AsBools(all) => list(all, |value| Ok(Argument::Bool(value)))?,
            ArgumentJson::AsSymInt(number) | ArgumentJson::AsSymFloat(number) | ArgumentJson::AsSymBool(number) => {
                symbolic(number)?
            }
            ArgumentJson::AsSymInts(all) | ArgumentJson::AsSymFloats(all) => list(all, symbolic)?,
            ArgumentJson::AsScalarType(number) => Argument::Int(element_type(number)?.into()),
            ArgumentJson::AsMemoryFormat(number) => Argument::Int(memory_format(number)?),
            ArgumentJson::AsLayout(7) => Argument::Int(0),
            ArgumentJson::AsLayout(number) => return Err(format!("it is layout {number}, and only strided is known")),
            ArgumentJson::AsDevice(device) if matches!(device.kind.as_str(), "cpu" | "cuda") => Argument::Device,
            ArgumentJson::AsDevice(device) => return Err(format!("it is the device '{}'", device.kind)),
        })
    }

    pub(super) fn returned(&self, json: ArgumentJson) -> Result<Returned, String> {
        let known = |named: Named| self.value(&named.name);
        Ok(match json {
            // A value that nothing uses may have no description.
            ArgumentJson::AsTensor(Named { name }) => match self.by_name.get(name.as_str()) {
                Some(value) => Returned::Value(*value),
                None => Returned::Nothing,
            },
            ArgumentJson::AsTensors(all) => Returned::List(all.into_iter().map(known).collect::<Result<_, _>>()?),
            ArgumentJson::AsSymInt(SymOr::AsName(name))
            | ArgumentJson::AsSymFloat(SymOr::AsName(name))
            | ArgumentJson::AsSymBool(SymOr::AsName(name)) => Returned::Value(self.value(&name)?),
            ArgumentJson::AsNone(_) => Returned::Nothing,
            _ => return Err("it is neither a tensor nor a number".to_owned()),
        })
    }
}

pub(super) fn list<T>(all: Vec<T>, one: impl Fn(T) -> Result<Argument, String>) -> Result<Argument, String> {
    all.into_iter().map(one).collect::<Result<_, _>>().map(Argument::List)
}

fn refused(node: &Node, what: &str, reason: &str) -> ExportedError {
    ExportedError::Unsupported(format!("{what} of operator {} at {}: {reason}", node.operator, node.place))
}

fn stateful(name: &str) -> ExportedError {
    ExportedError::Unsupported(format!(
        "it changes '{name}' when it runs, which all requests would share: return the new state as an output, and call \
         model.eval() before the export"
    ))
}

fn parsed<T: for<'de> Deserialize<'de>>(json: &Json, what: &str) -> Result<T, ExportedError> {
    T::deserialize(json).map_err(|error| ExportedError::Unsupported(format!("{what} is of another kind: {error}")))
}

/// Parses an argument, whose kind the error names if it is unknown.
fn argument_of(json: &Json) -> Result<ArgumentJson, String> {
    ArgumentJson::deserialize(json).map_err(|error| {
        let kind = json.as_object().and_then(|fields| fields.keys().next());
        match kind.map(String::as_str) {
            Some("as_graph") => "it is a subgraph, as of torch.cond inside forward".to_owned(),
            Some("as_custom_obj") => "it is an object of a custom class".to_owned(),
            _ => error.to_string(),
        }
    })
}

pub(super) fn operator(target: &str, place: &str) -> Result<Operator, ExportedError> {
    let unsupported = |what: &str| Err(ExportedError::Unsupported(format!("operator {target} at {place} {what}")));
    let Some(registered) = target.strip_prefix("torch.ops.") else {
        return Ok(Operator::Scalar(target.to_owned()));
    };
    // Names end at a NUL byte in libtorch, so another character could hide a name that is refused.
    if !registered.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_')) {
        return unsupported("has a name with other characters than letters, digits and underscores");
    }
    let parts: Vec<&str> = registered.split('.').collect();
    match parts.as_slice() {
        ["higher_order", "wrap_with_autocast", ..] => {
            unsupported("computes in other types: save the result of program.run_decompositions({}), which has them")
        }
        ["higher_order", ..] => unsupported(
            "is a higher-order operator, whose subgraph is not run: export the model without it, such as a loop with a \
             fixed number of steps",
        ),
        [namespace, name, overload] => match forbidden::reason(namespace, name) {
            None => Ok(Operator::Registered {
                name: format!("{namespace}::{name}"),
                overload: if *overload == "default" { String::new() } else { (*overload).to_owned() },
            }),
            Some(reason) => unsupported(&format!("{reason}, and no file may do that")),
        },
        _ => unsupported("has no name of the form namespace.name.overload"),
    }
}

/// Returns the argument, or the reason why its text may do more than select a way to compute.
fn harmless(operator: &Operator, name: &str, argument: Argument) -> Result<Argument, String> {
    let namespace = match operator {
        Operator::Registered { name, .. } => name.split("::").next().unwrap_or_default(),
        Operator::Scalar(_) => return Ok(argument),
    };
    match argument {
        Argument::Text(_) if !forbidden::may_be_text(namespace, name) => {
            Err("it is a text that may name a file, and no model file may do that".to_owned())
        }
        argument => Ok(argument),
    }
}

/// Names each input by its argument, or by its last key if that is unique; otherwise by its name in the graph.
fn name_uniquely(inputs: &mut [Input], values: &[Value]) {
    let short = |input: &Input| {
        let key = input.path.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(key.clone()),
            Step::Position(_) => None,
        });
        let ends_with_key = matches!(input.path.last(), Some(Step::Key(_)));
        key.filter(|key| ends_with_key && !key.is_empty())
    };
    let names: Vec<Option<String>> = inputs.iter().map(short).collect();
    let mut counts: HashMap<&Option<String>, usize> = HashMap::new();
    names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    for (own, input) in names.iter().zip(inputs) {
        let unique = counts[own] == 1;
        input.name = own.clone().filter(|_| unique).unwrap_or_else(|| values[input.value].name.clone());
    }
}

pub(super) fn expression(size: &SymInt) -> Option<Expression> {
    match size {
        SymInt::AsInt(number) => Some(Expression::Number(*number)),
        SymInt::AsExpr(symbolic) => Expression::parse(&symbolic.expr_str),
    }
}

fn fixed(size: &SymInt) -> Option<i64> {
    match size {
        SymInt::AsInt(number) => Some(*number),
        SymInt::AsExpr(_) => None,
    }
}

pub(super) fn dimension(size: &SymInt) -> Dimension {
    fixed(size).map_or(Dimension::Variable, Dimension::Fixed)
}

/// Returns a size's value in the example; 1 if the file does not have it.
fn hint(size: &SymInt) -> i64 {
    match size {
        SymInt::AsInt(number) => *number,
        SymInt::AsExpr(symbolic) => {
            let hint = symbolic.hint.as_ref().and_then(|hint| hint.get("as_int")).and_then(Json::as_i64);
            hint.unwrap_or(1)
        }
    }
}

/// Converts the schema's number of an element type to that of `c10::ScalarType`.
pub(super) fn element_type(number: i64) -> Result<ElementType, String> {
    match number {
        1..=12 => Ok(number as i32 - 1),
        13 => Ok(15),
        28 => Ok(27),
        29 => Ok(24),
        30 => Ok(23),
        31 => Ok(26),
        32 => Ok(25),
        34 => Ok(28),
        35 => Ok(29),
        _ => Err(format!("element type {number} is unknown")),
    }
}

/// Converts the schema's number of a memory format to that of `c10::MemoryFormat`.
fn memory_format(number: i64) -> Result<i64, String> {
    match number {
        1 => Ok(0), // contiguous
        2 => Ok(2), // channels last
        3 => Ok(3), // channels last, with three spatial dimensions
        4 => Ok(1), // as the input
        _ => Err(format!("memory format {number} is unknown")),
    }
}
