//! Tensor data: typed, raw and in shared memory.

use bytes::Bytes;
use prost::Message;
use weir_protocol::grpc::decode_request;
use weir_protocol::grpc::proto::model_infer_request::InferInputTensor;
use weir_protocol::grpc::proto::{InferTensorContents, ModelInferRequest};
use weir_protocol::{DataType, Shape, SharedRange, Source, Tensor};

use super::{input, int, map, refusal, request, text};

/// Returns typed contents of a datatype with two elements, and their raw bytes.
fn typed(datatype: DataType) -> Option<(InferTensorContents, Vec<u8>)> {
    let mut contents = InferTensorContents::default();
    let bytes: Vec<u8> = match datatype {
        DataType::Bool => {
            contents.bool_contents = vec![true, false];
            vec![1, 0]
        }
        DataType::Int8 => {
            contents.int_contents = vec![-128, 127];
            vec![0x80, 0x7f]
        }
        DataType::Int16 => {
            contents.int_contents = vec![-2, 3];
            vec![0xfe, 0xff, 3, 0]
        }
        DataType::Int32 => {
            contents.int_contents = vec![i32::MIN, 1];
            vec![0, 0, 0, 0x80, 1, 0, 0, 0]
        }
        DataType::Int64 => {
            contents.int64_contents = vec![i64::MAX, -1];
            [i64::MAX.to_le_bytes(), [0xff; 8]].concat()
        }
        DataType::Uint8 => {
            contents.uint_contents = vec![0, 255];
            vec![0, 255]
        }
        DataType::Uint16 => {
            contents.uint_contents = vec![0x1234, 65535];
            vec![0x34, 0x12, 0xff, 0xff]
        }
        DataType::Uint32 => {
            contents.uint_contents = vec![u32::MAX, 1];
            vec![0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]
        }
        DataType::Uint64 => {
            contents.uint64_contents = vec![u64::MAX, 0];
            [[0xff; 8], [0; 8]].concat()
        }
        DataType::Fp32 => {
            contents.fp32_contents = vec![f32::NAN, -0.5];
            [f32::NAN.to_le_bytes(), (-0.5_f32).to_le_bytes()].concat()
        }
        DataType::Fp64 => {
            contents.fp64_contents = vec![f64::INFINITY, 0.1];
            [f64::INFINITY.to_le_bytes(), 0.1_f64.to_le_bytes()].concat()
        }
        DataType::Bytes => {
            contents.bytes_contents = vec![Bytes::from_static(b"ab"), Bytes::new()];
            b"\x02\0\0\0ab\0\0\0\0".to_vec()
        }
        DataType::Fp16 | DataType::Bf16 => return None,
    };
    Some((contents, bytes))
}

#[test]
fn typed_contents_become_the_raw_bytes_of_every_datatype() {
    for datatype in DataType::ALL {
        let Some((contents, bytes)) = typed(datatype) else {
            continue;
        };
        let mut one = input("x", datatype.name(), &[2]);
        one.contents = Some(contents);
        let decoded = decode_request(request(vec![one], &[])).unwrap();
        let [x] = decoded.inputs.as_slice() else { panic!("{decoded:?}") };
        assert_eq!(x.source, Source::Inline(bytes.clone().into()), "{datatype}");
        let shape = Shape::new(&[2]).unwrap();
        Tensor::new("x".to_owned(), datatype, shape, bytes.into()).expect("fits its shape");
    }
}

#[test]
fn raw_contents_are_shared_with_the_message_not_copied() {
    let sent = request(vec![input("x", "FP16", &[2])], &[b"abcd"]).encode_to_vec();
    let sent = Bytes::from(sent);
    let message = ModelInferRequest::decode(sent.clone()).unwrap();
    let decoded = decode_request(message).unwrap();
    let Source::Inline(data) = &decoded.inputs[0].source else { panic!("inline") };
    assert_eq!(data.as_ref(), b"abcd");
    assert!(sent.as_ptr_range().contains(&data.as_ptr()));
}

#[test]
fn inputs_in_shared_memory_take_no_raw_entry_and_surplus_is_ignored() {
    let mut shared = input("s", "INT8", &[2]);
    shared.parameters = map([
        ("shared_memory_region", text("r")),
        ("shared_memory_byte_size", int(2)),
        ("shared_memory_offset", int(4)),
    ]);
    let inputs = vec![input("a", "INT8", &[1]), shared, input("b", "INT8", &[1])];
    let decoded = decode_request(request(inputs, &[b"a", b"b", b"surplus"])).unwrap();
    let sources: Vec<&Source> = decoded.inputs.iter().map(|input| &input.source).collect();
    let range = SharedRange { region: "r".to_owned(), offset: 4, size: 2 };
    assert_eq!(
        sources,
        [&Source::Inline(Bytes::from_static(b"a")), &Source::Shared(range), &Source::Inline(Bytes::from_static(b"b")),]
    );
}

fn filled(fill: fn(&mut InferTensorContents)) -> Option<InferTensorContents> {
    let mut contents = InferTensorContents::default();
    fill(&mut contents);
    Some(contents)
}

/// Returns inputs whose data is in shared memory and in the message.
fn twice(contents: Option<InferTensorContents>) -> Vec<InferInputTensor> {
    let mut inputs = with("FP32", contents);
    inputs[0].parameters = map([("shared_memory_region", text("r")), ("shared_memory_byte_size", int(4))]);
    inputs
}

fn with(datatype: &str, contents: Option<InferTensorContents>) -> Vec<InferInputTensor> {
    let mut one = input("x", datatype, &[1]);
    one.contents = contents;
    vec![one]
}

#[test]
fn data_is_refused_in_tritons_words() {
    let floats = filled(|contents| contents.fp32_contents = vec![1.0]);
    let cases = [
        (
            request(with("FP32", floats.clone()), &[b"abcd"]),
            "contents field must not be specified when using raw_input_contents for 'x' for model \
             'm'",
        ),
        (
            request(twice(floats.clone()), &[]),
            "unexpected 'content' provided when using shared memory for input tensor 'x' for model \
             'm'",
        ),
        (
            request(with("INT32", floats.clone()), &[]),
            "unexpected explicit tensor data for input tensor 'x' for model 'm' of type 'FP32', \
             expected datatype 'INT32'",
        ),
        (
            request(with("FP16", floats), &[]),
            "unexpected explicit tensor data for input tensor 'x' for model 'm' of type 'FP32', \
             expected datatype 'FP16'",
        ),
        (request(with("FP32", None), &[]), "unable to find data for input tensor 'x' for model 'm' in request."),
        (
            request(with("INT8", filled(|some| some.int_contents = vec![128])), &[]),
            "value 128 of input tensor 'x' for model 'm' is out of range for datatype 'INT8'",
        ),
        (
            request(with("UINT16", filled(|some| some.uint_contents = vec![65536])), &[]),
            "value 65536 of input tensor 'x' for model 'm' is out of range for datatype 'UINT16'",
        ),
    ];
    for (request, sentence) in cases {
        assert_eq!(refusal(request), sentence);
    }
}

#[test]
fn impossible_tensors_are_refused_by_name() {
    let huge = i64::MAX;
    let cases = [
        (
            request(vec![input("x", "float", &[1])], &[b"abcd"]),
            "input 'x' for model 'm' has the unknown datatype 'float'".to_owned(),
        ),
        (
            request(vec![input("x", "FP32", &[1, -1])], &[b"abcd"]),
            "input 'x' for model 'm': shape [1,-1] has the negative dimension -1".to_owned(),
        ),
        (
            request(vec![input("x", "FP32", &[1; 1_000_000])], &[b"abcd"]),
            "input 'x' for model 'm': shape has 1000000 dimensions, more than 64".to_owned(),
        ),
        (
            request(vec![input("x", "FP32", &[huge, huge])], &[b"abcd"]),
            format!(
                "input 'x' for model 'm': shape [{huge},{huge}] causes total element count to \
                 exceed maximum size of {}",
                Shape::MAX_ELEMENTS
            ),
        ),
        (
            request(vec![input("x", "INT8", &[1]), input("x", "INT8", &[1])], &[b"a", b"b"]),
            "input 'x' already exists in request".to_owned(),
        ),
    ];
    for (request, sentence) in cases {
        assert_eq!(refusal(request), sentence);
    }
}
