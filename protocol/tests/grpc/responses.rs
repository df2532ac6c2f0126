//! Tests of the responses and statuses that clients receive.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use weir_protocol::grpc::proto::ModelInferRequest;
use weir_protocol::grpc::proto::infer_parameter::ParameterChoice;
use weir_protocol::grpc::{GrpcError, decode_request, encode_response, status};
use weir_protocol::{DataType, Delivery, InferResponse, Parameter, Parameters, Shape, SharedRange, Source, Tensor};

use super::{given, input, int, map, request, text};

#[test]
fn a_status_carries_code_and_message() {
    let status = status(&GrpcError::DuplicateInput("x".to_owned()));
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert_eq!(status.message(), "input 'x' already exists in request");
}

#[test]
fn a_status_fits_the_metadata_limit_of_clients() {
    for letter in ["x", "ß", " "] {
        let long = status(&GrpcError::DuplicateInput(letter.repeat(100_000)));
        let message = long.message();
        assert!(message.len() * 3 < 7 * 1024, "{}", message.len());
        assert!(message.starts_with("input '") && message.ends_with("already exists in request"));
    }
}

#[test]
fn responses_are_raw_and_shared_outputs_leave_an_empty_entry() {
    let tensor = |name: &str| {
        let shape = Shape::new(&[1, 2]).unwrap();
        Tensor::new(name.to_owned(), DataType::Int8, shape, Bytes::from_static(b"ab")).unwrap()
    };
    let range = SharedRange { region: "r".to_owned(), offset: 16, size: 64 };
    let answer = InferResponse {
        model: "m".to_owned(),
        version: "1".to_owned(),
        id: "i".to_owned(),
        parameters: Parameters::from([("k".to_owned(), Parameter::Bool(true))]),
        outputs: vec![
            (tensor("a"), Delivery::Binary),
            (tensor("b"), Delivery::Shared(range)),
            (tensor("c"), Delivery::Json),
        ],
    };
    let message = encode_response(answer);
    assert_eq!(message.raw_output_contents, ["ab", "", "ab"]);
    assert_eq!(message.parameters, map([("k", given(ParameterChoice::BoolParam(true)))]));
    assert!(message.outputs.iter().all(|output| output.contents.is_none()));
    assert_eq!((message.outputs[0].datatype.as_str(), &message.outputs[0].shape[..]), ("INT8", &[1, 2][..]));
    let place = map([
        ("shared_memory_region", text("r")),
        ("shared_memory_byte_size", int(2)),
        ("shared_memory_offset", int(16)),
    ]);
    assert_eq!(message.outputs[1].parameters, place);
}

proptest! {
    #[test]
    fn raw_tensors_come_back_unchanged(
        id in ".{0,8}",
        data in proptest::collection::vec(any::<u8>(), 0..64),
        index in 0..DataType::ALL.len(),
    ) {
        let datatype = DataType::ALL[index];
        let Some(size) = datatype.size() else { return Ok(()) };
        let count = data.len() / size;
        let data = Bytes::from(data).slice(..count * size);
        let mut sent = request(vec![input("x", datatype.name(), &[count as i64])], &[]);
        sent.id = id.clone();
        sent.raw_input_contents = vec![data.clone()];
        let message = ModelInferRequest::decode(Bytes::from(sent.encode_to_vec())).unwrap();
        let decoded = decode_request(message).unwrap();
        let [x] = decoded.inputs.as_slice() else { panic!("one input") };
        let Source::Inline(read) = x.source.clone() else { panic!("inline") };
        let tensor = Tensor::new("y".to_owned(), x.datatype, x.shape.clone(), read).unwrap();
        let answer = encode_response(InferResponse {
            model: decoded.model,
            version: "1".to_owned(),
            id: decoded.id,
            parameters: Parameters::new(),
            outputs: vec![(tensor, Delivery::Binary)],
        });
        prop_assert_eq!(&answer.raw_output_contents[0], &data);
        prop_assert_eq!(&answer.outputs[0].datatype, datatype.name());
        prop_assert_eq!(answer.id, id);
    }
}
