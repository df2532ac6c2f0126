//! The JSON form of exported programs, schema 8.x of `torch/_export/serde/schema.py`. Fields that are not needed are
//! left out, and unknown fields are ignored, because later minor versions add some.

use std::collections::{BTreeMap, HashMap};

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(crate) struct ProgramJson {
    pub(crate) graph_module: GraphModule,
    #[serde(default)]
    pub(crate) range_constraints: BTreeMap<String, RangeConstraint>,
    pub(crate) schema_version: SchemaVersion,
    #[serde(default)]
    pub(crate) guards_code: Vec<String>,
    #[serde(default)]
    pub(crate) torch_version: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SchemaVersion {
    pub(crate) major: u64,
    pub(crate) minor: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct RangeConstraint {
    pub(crate) min_val: Option<i64>,
    pub(crate) max_val: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GraphModule {
    pub(crate) graph: Graph,
    pub(crate) signature: GraphSignature,
    #[serde(default)]
    pub(crate) module_call_graph: Vec<ModuleCall>,
    #[serde(default)]
    pub(crate) treespec_namedtuple_fields: HashMap<String, NamedTuple>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NamedTuple {
    pub(crate) field_names: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ModuleCall {
    pub(crate) fqn: String,
    pub(crate) signature: Option<ModuleCallSignature>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ModuleCallSignature {
    pub(crate) in_spec: String,
    pub(crate) out_spec: String,
    #[serde(default)]
    pub(crate) forward_arg_names: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Graph {
    #[serde(default)]
    pub(crate) inputs: Vec<Value>,
    #[serde(default)]
    pub(crate) outputs: Vec<Value>,
    pub(crate) nodes: Vec<NodeJson>,
    pub(crate) tensor_values: HashMap<String, TensorMeta>,
    pub(crate) sym_int_values: HashMap<String, SymInt>,
    #[serde(default)]
    pub(crate) sym_bool_values: HashMap<String, Value>,
    #[serde(default)]
    pub(crate) sym_float_values: HashMap<String, Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NodeJson {
    pub(crate) target: String,
    pub(crate) inputs: Vec<NamedArgument>,
    pub(crate) outputs: Vec<Value>,
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Conditions of a node that was in a branch, from the outermost one.
    #[serde(skip)]
    pub(crate) guards: Vec<GuardJson>,
}

/// A condition by the name of its truth value, and the value at which a node runs.
#[derive(Clone, Debug)]
pub(crate) struct GuardJson {
    pub(crate) condition: String,
    pub(crate) expected: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NamedArgument {
    pub(crate) name: String,
    pub(crate) arg: Value,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TensorMeta {
    pub(crate) dtype: i64,
    pub(crate) sizes: Vec<SymInt>,
    pub(crate) strides: Vec<SymInt>,
    pub(crate) storage_offset: SymInt,
    #[serde(default)]
    pub(crate) layout: Option<i64>,
}

/// A size: a number or a symbolic expression.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SymInt {
    AsInt(i64),
    AsExpr(SymExpr),
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SymExpr {
    pub(crate) expr_str: String,
    #[serde(default)]
    pub(crate) hint: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DeviceJson {
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OptionalTensor {
    AsTensor(Named),
    AsNone(IgnoredAny),
}

/// A symbolic number by its name, or a number.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the variants are the keys of the JSON form")]
pub(crate) enum SymOr {
    AsName(String),
    AsInt(i64),
    AsFloat(Float),
    AsBool(bool),
}

/// A float: a number, or a string with the digits of one or the name of an infinity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Float(pub(crate) f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(f64),
            Text(String),
        }
        match Form::deserialize(from)? {
            Form::Number(number) => Ok(Self(number)),
            Form::Text(text) => match text.as_str() {
                "Infinity" | "inf" => Ok(Self(f64::INFINITY)),
                "-Infinity" | "-inf" => Ok(Self(f64::NEG_INFINITY)),
                "NaN" | "nan" => Ok(Self(f64::NAN)),
                other => match other.parse() {
                    Ok(number) => Ok(Self(number)),
                    Err(_) => Err(serde::de::Error::custom(format!("'{other}' is no number"))),
                },
            },
        }
    }
}

/// An argument of a node. Kinds that are missing here are refused by their name.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the variants are the keys of the JSON form")]
pub(crate) enum ArgumentJson {
    AsNone(IgnoredAny),
    AsTensor(Named),
    AsTensors(Vec<Named>),
    AsOptionalTensor(OptionalTensor),
    AsOptionalTensors(Vec<OptionalTensor>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsFloat(Float),
    AsFloats(Vec<Float>),
    AsString(String),
    AsBool(bool),
    AsBools(Vec<bool>),
    AsSymInt(SymOr),
    AsSymInts(Vec<SymOr>),
    AsSymFloat(SymOr),
    AsSymFloats(Vec<SymOr>),
    AsSymBool(SymOr),
    AsScalarType(i64),
    AsMemoryFormat(i64),
    AsLayout(i64),
    AsDevice(DeviceJson),
}

#[derive(Debug, Deserialize)]
pub(crate) struct GraphSignature {
    pub(crate) input_specs: Vec<Value>,
    pub(crate) output_specs: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InputSpec {
    UserInput { arg: Value },
    Parameter { arg: Named, parameter_name: String },
    Buffer { arg: Named, buffer_name: String },
    TensorConstant { arg: Named, tensor_constant_name: String },
    ConstantInput {},
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputSpec {
    UserOutput { arg: Value },
    LossOutput { arg: Value },
    BufferMutation { buffer_name: String },
    ParameterMutation { parameter_name: String },
    UserInputMutation {},
}

#[derive(Debug, Deserialize)]
pub(crate) struct PayloadConfig {
    pub(crate) config: HashMap<String, PayloadMeta>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PayloadMeta {
    pub(crate) path_name: String,
    pub(crate) use_pickle: bool,
    pub(crate) tensor_meta: Option<TensorMeta>,
}
