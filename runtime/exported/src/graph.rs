//! The typed graph of a program, with its inputs, weights and outputs.

mod builder;

use std::collections::{BTreeMap, HashMap};

use self::builder::{Builder, at, guards, root_call};
use crate::error::ExportedError;
use crate::expression::Expression;
use crate::format::schema::{ProgramJson, RangeConstraint, TensorMeta};
use crate::inline::inline;
use crate::operators::CHOICE;
use crate::tree::{self, Step};

/// The schema's major version that this reader knows.
const MAJOR: u64 = 8;

/// A program of torch.export, with its contract.
#[derive(Debug)]
pub struct Program {
    /// The tensors that a request gives, in the order of the arguments of `forward`.
    pub inputs: Vec<Input>,
    /// The tensors that the file holds, as far as the graph takes them.
    pub weights: Vec<Weight>,
    /// The values that `forward` returns, flattened. Values that are None or a constant are left out.
    pub outputs: Vec<Output>,
    /// Release of torch that exported the program, such as `2.11.0`; `None` if the file does not say.
    pub torch_version: Option<String>,
    pub(crate) values: Vec<Value>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ranges: BTreeMap<String, RangeConstraint>,
    pub(crate) guards: Vec<Expression>,
}

/// Index of a value in the graph.
pub(crate) type ValueId = usize;

/// A value of the graph.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) kind: ValueKind,
    /// Type of a tensor's elements; `None` for a number, or for a type that this reader does not know.
    pub(crate) element_type: Option<ElementType>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueKind {
    /// A tensor with its sizes; `None` for a size that this runtime cannot express.
    Tensor(Vec<Option<Expression>>),
    Int(Option<Expression>),
    Float,
    Bool,
}

/// Element type of a tensor, as the number of its `c10::ScalarType`.
pub type ElementType = i32;

/// A tensor that a request gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Name of the argument, or of the entry of a dict argument.
    pub name: String,
    /// Type of the elements.
    pub element_type: ElementType,
    /// Sizes of the dimensions.
    pub dimensions: Vec<Dimension>,
    /// Sizes of the example that the program was exported with.
    pub example: Vec<i64>,
    pub(crate) path: Vec<Step>,
    pub(crate) value: ValueId,
}

/// A dimension of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// The same size in every request.
    Fixed(i64),
    /// A size that may differ between requests.
    Variable,
}

/// A parameter, a buffer or a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// Qualified name in the module.
    pub name: String,
    /// Type of the elements.
    pub element_type: ElementType,
    /// Sizes of the dimensions.
    pub sizes: Vec<i64>,
    /// Distance of neighbours in each dimension, in elements.
    pub strides: Vec<i64>,
    /// Offset of the first element in the payload, in elements.
    pub offset: i64,
    /// Entry of the archive that holds the elements.
    pub payload: Payload,
    pub(crate) value: ValueId,
}

/// An entry of the archive with the elements of one or several weights.
#[derive(Clone, Debug)]
pub struct Payload {
    /// Name of the entry. In an inner archive, the name of the inner archive and a slash precede it.
    pub entry: String,
    /// Name of the entry that is the archive of this one; `None` for an entry of the file itself.
    pub(crate) archive: Option<String>,
    /// Size of the entry in bytes.
    pub bytes: u64,
    pub(crate) tensor: Option<TensorMeta>,
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.entry == other.entry
    }
}

/// A value that `forward` returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Path in the returned value: keys and `#` with a position, joined by dots.
    pub path: String,
    /// Kind of the value.
    pub kind: OutputKind,
    pub(crate) value: ValueId,
}

/// Kind of an output.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputKind {
    /// A tensor with elements of this type and these dimensions.
    Tensor(ElementType, Vec<Dimension>),
    /// A number that the graph computes from sizes.
    Number(Number),
}

/// Kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// An integer of 64 bits.
    Int,
    /// A float in double precision.
    Float,
    /// A truth value of Python.
    Bool,
}

/// A call of an operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) operator: Operator,
    /// Position in the graph for messages, such as `'linear_1'`.
    pub(crate) place: String,
    pub(crate) arguments: Vec<(String, Argument)>,
    pub(crate) outputs: Vec<Returned>,
    /// The node runs only if all these conditions hold, of which the later ones may be computed only if the earlier ones
    /// hold.
    pub(crate) guards: Vec<Guard>,
}

/// A condition of a node, and the value of the condition at which the node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) condition: ValueId,
    pub(crate) expected: bool,
}

/// The target of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    /// A registered operator: qualified name (`aten::add`) and overload (`Tensor`).
    Registered { name: String, overload: String },
    /// A function of Python on numbers, such as `_operator.mul`.
    Scalar(String),
}

impl std::fmt::Display for Operator {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Registered { name, .. } if name == CHOICE => write!(to, "torch.cond"),
            Self::Registered { name, overload } if overload.is_empty() => write!(to, "{name}"),
            Self::Registered { name, overload } => write!(to, "{name}.{overload}"),
            Self::Scalar(name) => write!(to, "{name}"),
        }
    }
}

/// An argument of a node. Element types, layouts and memory formats have the numbers of c10.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    None,
    Value(ValueId),
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    /// The device of the executing instance.
    Device,
    List(Vec<Argument>),
}

/// A value that a node returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Returned {
    Value(ValueId),
    List(Vec<ValueId>),
    Nothing,
}

impl Program {
    pub(crate) fn new(mut json: ProgramJson, payloads: &HashMap<String, Payload>) -> Result<Self, ExportedError> {
        let version = &json.schema_version;
        if version.major != MAJOR {
            return Err(ExportedError::Schema(format!(
                "it has schema version {}.{}, and this runtime reads {MAJOR}.x",
                version.major, version.minor
            )));
        }
        inline(&mut json.graph_module.graph)?;
        let builder = Builder::new(&json.graph_module)?;
        let call = root_call(&json.graph_module);
        let (inputs, weights) = builder.inputs(call, payloads)?;
        let program = Self {
            outputs: builder.outputs(call)?,
            nodes: builder.nodes()?,
            values: builder.values,
            guards: guards(&json.guards_code)?,
            ranges: json.range_constraints,
            torch_version: json.torch_version,
            inputs,
            weights,
        };
        program.check_order()?;
        program.check_guards_known()?;
        Ok(program)
    }

    /// Checks that each guard names only inputs of this program.
    fn check_guards_known(&self) -> Result<(), ExportedError> {
        let mut paths = self.guards.iter().flat_map(Expression::sizes).map(|(path, _)| path);
        let unknown = paths.find(|path| self.input_at(path).is_none());
        match unknown {
            None => Ok(()),
            Some(path) => {
                let path = tree::joined(path);
                Err(ExportedError::Unsupported(format!("a guard is about '{path}', which is not an input")))
            }
        }
    }

    /// Checks that each value has one definition, which precedes its uses.
    fn check_order(&self) -> Result<(), ExportedError> {
        let mut defined = Defined { program: self, values: vec![false; self.values.len()] };
        self.inputs.iter().try_for_each(|input| defined.add(input.value))?;
        self.weights.iter().try_for_each(|weight| defined.add(weight.value))?;
        for node in &self.nodes {
            if node.guards.iter().any(|guard| !defined.values[guard.condition]) {
                return Err(at(node, "condition", "it is used before it is computed".to_owned()));
            }
            for (name, argument) in &node.arguments {
                let missing = argument.values().into_iter().find(|value| !defined.values[*value]);
                if let Some(value) = missing {
                    let value = &self.values[value].name;
                    return Err(at(node, name, format!("'{value}' is used before it is computed")));
                }
            }
            node.returned_values().into_iter().try_for_each(|value| defined.add(value))?;
        }
        match self.outputs.iter().find(|output| !defined.values[output.value]) {
            None => Ok(()),
            Some(output) => Err(ExportedError::Schema(format!("output '{}' is not computed", output.path))),
        }
    }
}

/// The values of a program that are defined so far.
struct Defined<'a> {
    program: &'a Program,
    values: Vec<bool>,
}

impl Defined<'_> {
    fn add(&mut self, value: ValueId) -> Result<(), ExportedError> {
        if std::mem::replace(&mut self.values[value], true) {
            let name = &self.program.values[value].name;
            return Err(ExportedError::Schema(format!("the value '{name}' is defined twice")));
        }
        Ok(())
    }
}

impl ValueKind {
    /// Returns the kind of a number; `None` for a tensor.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Self::Tensor(_) => None,
            Self::Int(_) => Some(Number::Int),
            Self::Float => Some(Number::Float),
            Self::Bool => Some(Number::Bool),
        }
    }
}

impl Argument {
    /// Returns the values that the argument holds.
    pub(crate) fn values(&self) -> Vec<ValueId> {
        match self {
            Self::Value(value) => vec![*value],
            Self::List(items) => items.iter().flat_map(Self::values).collect(),
            Self::None | Self::Int(_) | Self::Float(_) | Self::Bool(_) | Self::Text(_) | Self::Device => Vec::new(),
        }
    }
}

impl Node {
    pub(crate) fn returned_values(&self) -> Vec<ValueId> {
        let values = self.outputs.iter().flat_map(|returned| match returned {
            Returned::Value(value) => vec![*value],
            Returned::List(values) => values.clone(),
            Returned::Nothing => Vec::new(),
        });
        values.collect()
    }

    /// Returns the values that the node takes.
    pub(crate) fn operands(&self) -> Vec<ValueId> {
        self.arguments.iter().flat_map(|(_, argument)| argument.values()).collect()
    }

    /// Returns the argument with this name.
    pub(crate) fn argument(&self, name: &str) -> Option<&Argument> {
        self.arguments.iter().find(|(own, _)| own == name).map(|(_, argument)| argument)
    }
}

#[cfg(test)]
mod tests;
