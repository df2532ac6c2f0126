use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use weir_protocol::{Parameter, Shape};

use super::*;
use crate::backend::{Column, RequestInfo, RequestTensor};

fn source(parameters: &[(&str, &str)]) -> ModelSource {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    ModelSource { parameters: parameters.iter().map(own).collect(), ..ModelSource::bare("e", PathBuf::new()) }
}

fn part(dims: &[i64], values: &[f32]) -> RequestTensor {
    RequestTensor {
        datatype: DataType::Fp32,
        shape: Shape::new(dims).unwrap(),
        data: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

fn batch(dims: &[i64], parts: Vec<RequestTensor>) -> Batch {
    let mut parameters = Parameters::new();
    parameters.insert("k".to_owned(), Parameter::Int(5));
    let parameters = Arc::new(parameters);
    let info = |part: &RequestTensor| RequestInfo {
        rows: part.shape.dims()[0],
        parameters: Arc::clone(&parameters),
        staged: None,
    };
    Batch {
        rows: usize::try_from(dims[0]).unwrap(),
        requests: parts.iter().map(info).collect(),
        columns: vec![Column {
            name: "INPUT0".into(),
            datatype: DataType::Fp32,
            shape: Shape::new(dims).unwrap(),
            parts,
            pad: -1.0,
        }],
    }
}

fn run(parameters: &[(&str, &str)], batch: &Batch) -> BatchOutput {
    let model = EchoBackend.load(&source(parameters)).unwrap();
    model.instance(Device::Cpu).unwrap().run(batch).unwrap()
}

fn floats(data: &Bytes) -> Vec<f32> {
    let chunks = data.chunks_exact(4);
    chunks.map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

#[test]
fn a_single_part_is_returned_without_a_copy() {
    let batch = batch(&[1, 2], vec![part(&[1, 2], &[1.0, 2.0])]);
    let answer = run(&[], &batch);
    assert_eq!(answer.outputs[0].name(), "OUTPUT0");
    let sent = &batch.columns[0].parts[0].data;
    assert_eq!(answer.outputs[0].data().as_ptr(), sent.as_ptr());
    assert!(answer.parameters.is_empty());
}

#[test]
fn parts_are_returned_row_after_row() {
    let parts = vec![part(&[1, 2], &[1.0, 2.0]), part(&[2, 2], &[3.0, 4.0, 5.0, 6.0])];
    let answer = run(&[], &batch(&[3, 2], parts));
    assert_eq!(answer.outputs[0].shape().to_string(), "[3,2]");
    assert_eq!(floats(answer.outputs[0].data()), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn smaller_parts_are_padded() {
    let parts = vec![part(&[1, 1], &[1.0]), part(&[2, 2], &[3.0, 4.0, 5.0, 6.0])];
    let answer = run(&[], &batch(&[3, 3], parts));
    let expected = [1.0, -1.0, -1.0, 3.0, 4.0, -1.0, 5.0, 6.0, -1.0];
    assert_eq!(floats(answer.outputs[0].data()), expected);
}

#[test]
fn padding_holds_in_every_dimension() {
    let parts = vec![part(&[1, 2, 1], &[1.0, 2.0]), part(&[1, 1, 2], &[3.0, 4.0])];
    let answer = run(&[], &batch(&[2, 2, 2], parts));
    let expected = [1.0, -1.0, 2.0, -1.0, 3.0, 4.0, -1.0, -1.0];
    assert_eq!(floats(answer.outputs[0].data()), expected);
}

#[test]
fn a_part_larger_than_its_place_is_an_error() {
    let too_wide = batch(&[1, 2], vec![part(&[1, 3], &[1.0, 2.0, 3.0])]);
    let model = EchoBackend.load(&source(&[])).unwrap();
    let mut instance = model.instance(Device::Cpu).unwrap();
    let error = instance.run(&too_wide).unwrap_err();
    assert!(error.to_string().contains("larger than its place [1,2]"), "{error}");
}

#[test]
fn request_parameters_are_returned_if_configured() {
    let parts = vec![part(&[1, 1], &[1.0]), part(&[1, 1], &[2.0])];
    let answer = run(&[("echo_parameters", "true")], &batch(&[2, 1], parts));
    assert_eq!(answer.parameters.len(), 2);
    assert_eq!(answer.parameters[1]["k"], Parameter::Int(5));
}

#[test]
fn service_time_is_read_and_checked() {
    let behaviour = |text| behaviour(&source(&[("service_time_ms", text)]));
    assert_eq!(behaviour("2.5").unwrap().per_batch, Duration::from_micros(2500));
    for bad in ["-1", "NaN", "soon", "1e300"] {
        let error = behaviour(bad).unwrap_err().to_string();
        assert!(error.starts_with("parameter 'service_time_ms' is '"), "{error}");
    }
}

#[test]
fn each_output_must_match_its_input() {
    let mut wrong = source(&[]);
    wrong.inputs = vec![vector("A")];
    wrong.outputs = vec![vector("B"), vector("C")];
    assert!(EchoBackend.load(&wrong).is_err());
    wrong.outputs = vec![TensorConfig { datatype: DataType::Int8, ..vector("B") }];
    let error = EchoBackend.load(&wrong).err().unwrap().to_string();
    assert!(error.contains("output 'B' is INT8 but echoes input 'A'"), "{error}");
}

#[test]
fn without_configuration_the_model_echoes_one_vector() {
    let model = EchoBackend.load(&source(&[])).unwrap();
    let signature = model.signature();
    assert_eq!(signature.inputs, [vector("INPUT0")]);
    assert_eq!(signature.outputs, [vector("OUTPUT0")]);
    assert_eq!(signature.max_batch_size, DEFAULT_MAX_BATCH_SIZE);
    assert_eq!(BTreeMap::new(), source(&[]).parameters);
}
