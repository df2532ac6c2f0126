//! Benchmarks of the codecs: JSON tensors, the binary extension, protobuf.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up should stop")]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use prost::Message;
use weir_protocol::grpc::proto::ModelInferRequest;
use weir_protocol::grpc::proto::model_infer_request::InferInputTensor;
use weir_protocol::rest::{Limits, decode_request, encode_response};
use weir_protocol::{DataType, Delivery, InferResponse, Parameters, Shape, Tensor, grpc};

/// Numbers of elements in a request: those of add_sub, of the MLP and of resnet18.
const SIZES: [usize; 3] = [16, 784, 150_528];

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    json(&mut criterion);
    binary(&mut criterion);
    protobuf(&mut criterion);
    criterion.final_summary();
}

fn numbers(elements: usize) -> Vec<f32> {
    // Thirds have as many digits as typical numbers.
    (0..elements).map(|i| i as f32 / 3.0).collect()
}

fn raw(elements: usize) -> Bytes {
    let bytes = numbers(elements).into_iter().flat_map(f32::to_le_bytes);
    bytes.collect::<Vec<u8>>().into()
}

fn json_body(elements: usize) -> Bytes {
    let data: Vec<String> = numbers(elements).iter().map(ToString::to_string).collect();
    let data = data.join(",");
    let input = format!("{{\"name\":\"INPUT0\",\"datatype\":\"FP32\",\"shape\":[1,{elements}],\"data\":[{data}]}}");
    format!("{{\"inputs\":[{input}]}}").into()
}

fn response(elements: usize, delivery: Delivery) -> InferResponse {
    let shape = Shape::new(&[1, elements as i64]).unwrap();
    let tensor = Tensor::new("OUTPUT0".to_owned(), DataType::Fp32, shape, raw(elements)).unwrap();
    InferResponse {
        model: "mlp".to_owned(),
        version: "1".to_owned(),
        id: String::new(),
        parameters: Parameters::new(),
        outputs: vec![(tensor, delivery)],
    }
}

fn json(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("json");
    for elements in SIZES {
        let body = json_body(elements);
        let output = response(elements, Delivery::Json);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(BenchmarkId::new("decode", elements), |bencher| {
            bencher.iter(|| decode_request("mlp", "", black_box(body.clone()), None, &Limits::DEFAULT));
        });
        group.bench_function(BenchmarkId::new("encode", elements), |bencher| {
            bencher.iter(|| encode_response(black_box(&output)));
        });
    }
}

fn binary(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("binary");
    for elements in SIZES {
        let data = raw(elements);
        let head = format!(
            "{{\"inputs\":[{{\"name\":\"INPUT0\",\"datatype\":\"FP32\",\"shape\":[1,{elements}],\
             \"parameters\":{{\"binary_data_size\":{}}}}}],\"parameters\":{{\"binary_data_output\":true}}}}",
            data.len()
        );
        let body: Bytes = [head.as_bytes(), &data].concat().into();
        let split = Some(head.len());
        let output = response(elements, Delivery::Binary);
        group.bench_function(BenchmarkId::new("decode", elements), |bencher| {
            bencher.iter(|| decode_request("mlp", "", black_box(body.clone()), split, &Limits::DEFAULT));
        });
        group.bench_function(BenchmarkId::new("encode", elements), |bencher| {
            bencher.iter(|| encode_response(black_box(&output)));
        });
    }
}

fn protobuf(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("protobuf");
    for elements in SIZES {
        let input = InferInputTensor {
            name: "INPUT0".to_owned(),
            datatype: "FP32".to_owned(),
            shape: vec![1, elements as i64],
            ..InferInputTensor::default()
        };
        let message = ModelInferRequest {
            model_name: "mlp".to_owned(),
            inputs: vec![input],
            raw_input_contents: vec![raw(elements)],
            ..ModelInferRequest::default()
        };
        let body = Bytes::from(message.encode_to_vec());
        let output = response(elements, Delivery::Binary);
        group.bench_function(BenchmarkId::new("decode", elements), |bencher| {
            bencher.iter(|| {
                let message = ModelInferRequest::decode(black_box(body.clone())).unwrap();
                grpc::decode_request(message)
            });
        });
        group.bench_function(BenchmarkId::new("encode", elements), |bencher| {
            bencher.iter(|| grpc::encode_response(black_box(&output).clone()).encode_to_vec());
        });
    }
}
