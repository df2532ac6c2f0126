//! Builders of model sources and batches, as the engine passes them to the backend.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use weir_protocol::{DataType, Shape, Tensor};
use weir_runtime::backend::{
    Backend, Batch, Column, Device, Instance, LoadError, Model, ModelError, ModelSource, RequestInfo, RequestTensor,
    TensorConfig,
};
use weir_runtime_torch::TorchBackend;

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/models/{name}.pt"))
}

pub(crate) fn tensor(name: &str, datatype: DataType, dims: &[i64]) -> TensorConfig {
    TensorConfig::new(name, datatype, dims)
}

/// Returns a source without a configuration, so that its signature is inferred.
pub(crate) fn bare(name: &str) -> ModelSource {
    ModelSource::bare(name, path(name))
}

/// Returns a source with a complete configuration.
pub(crate) fn configured(
    name: &str,
    max_batch_size: usize,
    inputs: Vec<TensorConfig>,
    outputs: Vec<TensorConfig>,
) -> ModelSource {
    ModelSource { inputs, outputs, max_batch_size: Some(max_batch_size), ..bare(name) }
}

/// Returns the backend of the test process, whose child processes run the program `weir-runtime`.
pub(crate) fn backend() -> &'static TorchBackend {
    static BACKEND: OnceLock<TorchBackend> = OnceLock::new();
    BACKEND.get_or_init(|| {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_weir-runtime"));
        TorchBackend::with_program(program)
    })
}

pub(crate) fn load(source: &ModelSource) -> Arc<dyn Model> {
    backend().load(source).unwrap()
}

pub(crate) fn refusal(source: &ModelSource) -> LoadError {
    match backend().load(source) {
        Ok(_) => panic!("{} was loaded", source.name),
        Err(error) => error,
    }
}

pub(crate) fn instance(source: &ModelSource) -> Box<dyn Instance> {
    load(source).instance(Device::Cpu).unwrap()
}

pub(crate) fn floats(values: &[f32]) -> Bytes {
    Bytes::from_iter(values.iter().flat_map(|value| value.to_le_bytes()))
}

pub(crate) fn ints(values: &[i64]) -> Bytes {
    Bytes::from_iter(values.iter().flat_map(|value| value.to_le_bytes()))
}

pub(crate) fn as_floats(tensor: &Tensor) -> Vec<f32> {
    assert_eq!(tensor.datatype(), DataType::Fp32);
    let (elements, rest) = tensor.data().as_chunks::<4>();
    assert!(rest.is_empty());
    elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Returns a column with the parts of one or more requests.
pub(crate) fn column(name: &str, datatype: DataType, shape: &[i64], parts: &[(&[i64], Bytes)]) -> Column {
    let part = |(shape, data): &(&[i64], Bytes)| RequestTensor {
        datatype,
        shape: Shape::new(shape).unwrap(),
        data: data.clone(),
    };
    Column {
        name: Arc::from(name),
        datatype,
        shape: Shape::new(shape).unwrap(),
        parts: parts.iter().map(part).collect(),
        pad: 0.0,
    }
}

/// Returns a column with a single request.
pub(crate) fn whole(name: &str, datatype: DataType, shape: &[i64], data: Bytes) -> Column {
    column(name, datatype, shape, &[(shape, data)])
}

/// Returns a batch with the number of rows of its first column.
pub(crate) fn batch(columns: Vec<Column>) -> Batch {
    let rows = columns[0].shape.dims().first().copied().unwrap_or(1);
    Batch { rows, columns, requests: vec![RequestInfo { rows, parameters: Arc::default(), staged: None }] }
}

pub(crate) fn run(instance: &mut dyn Instance, columns: Vec<Column>) -> Result<Vec<Tensor>, ModelError> {
    instance.run(&batch(columns)).map(|answer| answer.outputs)
}
