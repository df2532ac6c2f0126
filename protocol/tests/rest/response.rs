use bytes::Bytes;
use weir_protocol::rest::{Encoded, RestError, encode_response};
use weir_protocol::{DataType, Delivery, InferResponse, Parameter, Parameters, Shape, SharedRange, Tensor};

use crate::refused;

pub(crate) fn tensor(name: &str, datatype: DataType, dims: &[i64], data: &[u8]) -> Tensor {
    let data = Bytes::copy_from_slice(data);
    Tensor::new(name.to_owned(), datatype, Shape::new(dims).unwrap(), data).unwrap()
}

pub(crate) fn response(outputs: Vec<(Tensor, Delivery)>) -> InferResponse {
    InferResponse {
        model: "m".to_owned(),
        version: "1".to_owned(),
        id: String::new(),
        parameters: Parameters::new(),
        outputs,
    }
}

fn json(tensor: Tensor) -> Result<Encoded, RestError> {
    encode_response(&response(vec![(tensor, Delivery::Json)]))
}

#[track_caller]
fn writes(datatype: DataType, data: &[u8], expected: &str) {
    let count = match datatype.size() {
        Some(size) => data.len() / size,
        None => 3,
    };
    let encoded = json(tensor("y", datatype, &[count as i64], data)).unwrap();
    let name = datatype.name();
    let expected = format!(
        "{{\"model_name\":\"m\",\"model_version\":\"1\",\"outputs\":[{{\"name\":\"y\",\"datatype\":\"{name}\",\"shape\":[{count}],\"data\":[{expected}]}}]}}"
    );
    assert_eq!(encoded.json, expected);
    assert_eq!((encoded.header_length, encoded.blobs.len()), (None, 0));
}

#[test]
fn elements_are_written_flat() {
    writes(DataType::Bool, &[0, 1, 2], "false,true,true");
    writes(DataType::Uint8, &[0, 255], "0,255");
    writes(DataType::Int8, &[128], "-128");
    writes(DataType::Uint16, &u16::MAX.to_le_bytes(), "65535");
    writes(DataType::Int16, &i16::MIN.to_le_bytes(), "-32768");
    writes(DataType::Uint32, &u32::MAX.to_le_bytes(), "4294967295");
    writes(DataType::Int32, &i32::MIN.to_le_bytes(), "-2147483648");
    writes(DataType::Uint64, &u64::MAX.to_le_bytes(), "18446744073709551615");
    writes(DataType::Int64, &i64::MIN.to_le_bytes(), "-9223372036854775808");
    writes(DataType::Fp32, &0.1_f32.to_le_bytes(), "0.1");
    writes(DataType::Fp64, &0.1_f64.to_le_bytes(), "0.1");
    writes(DataType::Bytes, b"\x01\0\0\0a\0\0\0\0\x03\0\0\0\"\n\x01", "\"a\",\"\",\"\\\"\\n\\u0001\"");
}

#[test]
fn non_finite_numbers_are_bare_words() {
    let data = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(f32::to_le_bytes);
    writes(DataType::Fp32, data.as_flattened(), "NaN,Infinity,-Infinity");
    let data = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(f64::to_le_bytes);
    writes(DataType::Fp64, data.as_flattened(), "NaN,Infinity,-Infinity");
}

#[test]
fn outputs_that_json_cannot_carry_are_refused() {
    for datatype in [DataType::Fp16, DataType::Bf16] {
        let words = format!(
            "sending {datatype} data via JSON is not supported. Please use the binary data format for output y"
        );
        refused(json(tensor("y", datatype, &[1], &[0, 0])), &words);
    }
    refused(
        json(tensor("y", DataType::Bytes, &[1], b"\x01\0\0\0\xff")),
        "output 'y' holds bytes that are not UTF-8 and cannot be sent as JSON. Please use the binary data format for output y",
    );
}

#[test]
fn binary_outputs_follow_the_json() {
    let a = tensor("a", DataType::Fp16, &[2], &[1, 2, 3, 4]);
    let b = tensor("b", DataType::Uint8, &[1], &[7]);
    let c = tensor("c", DataType::Uint8, &[1], &[9]);
    let outputs = vec![(a.clone(), Delivery::Binary), (b, Delivery::Json), (c, Delivery::Binary)];
    let encoded = encode_response(&InferResponse {
        id: "i".to_owned(),
        parameters: Parameters::from([("k".to_owned(), Parameter::Int(-1)), ("b".to_owned(), Parameter::Bool(false))]),
        ..response(outputs)
    })
    .unwrap();
    assert_eq!(
        encoded.json,
        r#"{"id":"i","model_name":"m","model_version":"1","parameters":{"b":false,"k":-1},"outputs":[{"name":"a","datatype":"FP16","shape":[2],"parameters":{"binary_data_size":4}},{"name":"b","datatype":"UINT8","shape":[1],"data":[7]},{"name":"c","datatype":"UINT8","shape":[1],"parameters":{"binary_data_size":1}}]}"#
    );
    assert_eq!(encoded.header_length, Some(encoded.json.len()));
    // The blob shares the tensor's bytes instead of copying them.
    assert_eq!(encoded.blobs[0].as_ptr(), a.data().as_ptr());
    let json = encoded.json.clone();
    assert_eq!(encoded.len(), json.len() + 5);
    assert_eq!(encoded.into_body(), [&json[..], &[1, 2, 3, 4, 9]].concat());
}

#[test]
fn without_blobs_there_is_no_header_length() {
    let empty = tensor("a", DataType::Fp32, &[1, 0], &[]);
    let encoded = encode_response(&response(vec![(empty, Delivery::Binary)])).unwrap();
    assert_eq!(encoded.header_length, None);
    assert!(encoded.into_body().ends_with(
        b"{\"name\":\"a\",\"datatype\":\"FP32\",\"shape\":[1,0],\"parameters\":{\"binary_data_size\":0}}]}"
    ));
}

#[test]
fn shared_outputs_have_no_parameters() {
    let range = SharedRange { region: "r".to_owned(), offset: 16, size: 4 };
    let a = tensor("a", DataType::Fp32, &[1], &[0; 4]);
    let encoded = encode_response(&response(vec![(a, Delivery::Shared(range))])).unwrap();
    assert_eq!(encoded.header_length, None);
    assert!(encoded.json.ends_with(b"\"datatype\":\"FP32\",\"shape\":[1]}]}"));
}
