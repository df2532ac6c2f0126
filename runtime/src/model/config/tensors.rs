//! The fields `max_batch_size`, `input` and `output` of a configuration.

use std::collections::{BTreeMap, HashSet};

use weir_protocol::DataType;
use weir_protocol::grpc::proto::model_input::Format;
use weir_protocol::grpc::proto::{self, ModelConfig, ModelInput, ModelOutput, ModelTensorReshape};

use super::ConfigError;
use super::normalise::check_inside;
use crate::backend::TensorConfig;

/// Returns the largest batch; `None` if the configuration has none of these three fields. The schema cannot distinguish
/// 0 from a missing value.
pub(super) fn max_batch_size(config: &ModelConfig) -> Result<Option<usize>, ConfigError> {
    let Ok(size) = usize::try_from(config.max_batch_size) else {
        return Err(ConfigError::Invalid(format!("'max_batch_size' must be non-negative value for {}", config.name)));
    };
    let open = size == 0 && config.input.is_empty() && config.output.is_empty();
    Ok((!open).then_some(size))
}

pub(super) fn inputs(config: &ModelConfig, max_batch_size: Option<usize>) -> Result<Vec<TensorConfig>, ConfigError> {
    let mut names = HashSet::new();
    let mut inputs = Vec::with_capacity(config.input.len());
    for input in &config.input {
        let row = Row { kind: "input", name: &input.name, model: &config.name };
        row.check_name(&mut names)?;
        if input.format() != Format::None && input.dims.len() != 3 {
            return Err(row.fail("NHWC/NCHW require 3 dims"));
        }
        inputs.push(TensorConfig {
            name: input.name.clone(),
            datatype: row.datatype(input.data_type)?,
            dims: row.dims(&input.dims)?,
            reshape: row.reshape(&input.dims, input.reshape.as_ref(), max_batch_size)?,
            optional: input.optional,
        });
    }
    Ok(inputs)
}

pub(super) fn outputs(config: &ModelConfig, max_batch_size: Option<usize>) -> Result<Vec<TensorConfig>, ConfigError> {
    let mut names = HashSet::new();
    let mut outputs = Vec::with_capacity(config.output.len());
    for output in &config.output {
        let row = Row { kind: "output", name: &output.name, model: &config.name };
        row.check_name(&mut names)?;
        outputs.push(TensorConfig {
            name: output.name.clone(),
            datatype: row.datatype(output.data_type)?,
            dims: row.dims(&output.dims)?,
            reshape: row.reshape(&output.dims, output.reshape.as_ref(), max_batch_size)?,
            optional: false,
        });
    }
    Ok(outputs)
}

/// Returns the label file of each output that has one.
pub(super) fn label_filenames(config: &ModelConfig) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut files = BTreeMap::new();
    for output in config.output.iter().filter(|output| !output.label_filename.is_empty()) {
        check_inside(&output.label_filename, "label_filename", config)?;
        files.insert(output.name.clone(), output.label_filename.clone());
    }
    Ok(files)
}

/// Returns an inferred input in the form of a configuration.
pub(super) fn input(tensor: &TensorConfig) -> ModelInput {
    ModelInput {
        name: tensor.name.clone(),
        data_type: proto_datatype(tensor.datatype).into(),
        dims: tensor.dims.clone(),
        reshape: proto_reshape(tensor),
        optional: tensor.optional,
        ..ModelInput::default()
    }
}

/// Returns an inferred output in the form of a configuration.
pub(super) fn output(tensor: &TensorConfig) -> ModelOutput {
    ModelOutput {
        name: tensor.name.clone(),
        data_type: proto_datatype(tensor.datatype).into(),
        dims: tensor.dims.clone(),
        reshape: proto_reshape(tensor),
        ..ModelOutput::default()
    }
}

fn proto_reshape(tensor: &TensorConfig) -> Option<ModelTensorReshape> {
    let shape = tensor.reshape.clone()?;
    Some(ModelTensorReshape { shape })
}

/// Returns the datatype with this number in the schema; `None` for `TYPE_INVALID` and unknown numbers.
pub(super) fn datatype(number: i32) -> Option<DataType> {
    let number = proto::DataType::try_from(number).ok()?;
    DataType::ALL.into_iter().find(|datatype| proto_datatype(*datatype) == number)
}

const fn proto_datatype(datatype: DataType) -> proto::DataType {
    match datatype {
        DataType::Bool => proto::DataType::TypeBool,
        DataType::Uint8 => proto::DataType::TypeUint8,
        DataType::Uint16 => proto::DataType::TypeUint16,
        DataType::Uint32 => proto::DataType::TypeUint32,
        DataType::Uint64 => proto::DataType::TypeUint64,
        DataType::Int8 => proto::DataType::TypeInt8,
        DataType::Int16 => proto::DataType::TypeInt16,
        DataType::Int32 => proto::DataType::TypeInt32,
        DataType::Int64 => proto::DataType::TypeInt64,
        DataType::Fp16 => proto::DataType::TypeFp16,
        DataType::Fp32 => proto::DataType::TypeFp32,
        DataType::Fp64 => proto::DataType::TypeFp64,
        DataType::Bf16 => proto::DataType::TypeBf16,
        DataType::Bytes => proto::DataType::TypeString,
    }
}

/// One input or output of a configuration, for its errors.
struct Row<'a> {
    kind: &'static str,
    name: &'a str,
    model: &'a str,
}

impl Row<'_> {
    /// Returns an error: Triton's sentence, followed by the names that Triton leaves out.
    fn fail(&self, what: &str) -> ConfigError {
        let Self { kind, name, model } = self;
        ConfigError::Invalid(format!("model {kind} {what} for '{name}' of model '{model}'"))
    }

    fn check_name(&self, names: &mut HashSet<String>) -> Result<(), ConfigError> {
        if self.name.is_empty() {
            return Err(self.fail("must specify 'name'"));
        }
        if !names.insert(self.name.to_owned()) {
            return Err(self.fail("must have a unique 'name'"));
        }
        Ok(())
    }

    fn datatype(&self, number: i32) -> Result<DataType, ConfigError> {
        datatype(number).ok_or_else(|| self.fail("must specify 'data_type'"))
    }

    fn dims(&self, dims: &[i64]) -> Result<Vec<i64>, ConfigError> {
        if dims.is_empty() {
            return Err(self.fail("must specify 'dims'"));
        }
        if dims.iter().any(|dim| *dim < 1 && *dim != -1) {
            return Err(self.fail("dimension must be integer >= 1, or -1 to indicate a variable-size dimension"));
        }
        if element_count(dims).is_none() {
            return Err(self.fail("'dims' are too large"));
        }
        Ok(dims.to_vec())
    }

    fn reshape(
        &self,
        dims: &[i64],
        reshape: Option<&ModelTensorReshape>,
        max_batch_size: Option<usize>,
    ) -> Result<Option<Vec<i64>>, ConfigError> {
        let Some(ModelTensorReshape { shape }) = reshape else {
            return Ok(None);
        };
        if shape.is_empty() && max_batch_size == Some(0) {
            return Err(self.fail(
                "cannot have empty reshape for non-batching model as scalar tensors are not \
                 supported",
            ));
        }
        if shape.iter().any(|dim| *dim < 1 && *dim != -1) {
            return Err(self.fail(
                "reshape dimensions must be integer >= 1, or -1 to indicate a variable-size \
                 dimension",
            ));
        }
        let (from, to) = (runs(dims), runs(shape));
        if from.len() != to.len() {
            return Err(self.fail("has different number of variable-size dimensions for dims and reshape"));
        }
        if from != to {
            return Err(self.fail("has different size for dims and reshape"));
        }
        Ok(Some(shape.clone()))
    }
}

/// Returns the number of elements in the fixed dimensions; `None` if it exceeds the limit of a tensor.
fn element_count(dims: &[i64]) -> Option<usize> {
    let fixed: Vec<i64> = dims.iter().copied().filter(|dim| *dim > 0).collect();
    weir_protocol::Shape::new(&fixed).ok().map(|shape| shape.elements())
}

/// Returns the element counts of the fixed dimensions between the variable ones. A reshape must keep them; otherwise it
/// would be ambiguous which variable dimension became which.
fn runs(dims: &[i64]) -> Vec<Option<usize>> {
    dims.split(|dim| *dim == -1).map(element_count).collect()
}
