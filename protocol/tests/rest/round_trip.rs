//! Property tests: encoding and decoding return the same tensor, for every datatype, as JSON and as bytes.

use bytes::Bytes;
use proptest::prelude::*;
use weir_protocol::rest::{Encoded, Limits, decode_request, encode_response};
use weir_protocol::{DataType, Delivery, InferRequest, Tensor};

use crate::inline_data;
use crate::response::{response, tensor};

/// Generates tensors of any datatype and shape with any bits, except that every NaN has the same bits, because JSON has
/// only one NaN.
fn tensors() -> impl Strategy<Value = Tensor> {
    let datatype = proptest::sample::select(DataType::ALL.to_vec());
    let dims = proptest::collection::vec(0_i64..5, 0..4);
    (datatype, dims).prop_flat_map(|(datatype, dims)| {
        let elements = dims.iter().product::<i64>() as usize;
        let data = match datatype.size() {
            Some(size) => proptest::collection::vec(any::<u8>(), elements * size).boxed(),
            None => proptest::collection::vec(any::<String>(), elements).prop_map(|strings| join(&strings)).boxed(),
        };
        data.prop_map(move |data| tensor("x", datatype, &dims, &canonical(datatype, data)))
    })
}

fn join(strings: &[String]) -> Vec<u8> {
    let one = |text: &String| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    strings.iter().flat_map(one).collect()
}

fn canonical(datatype: DataType, mut data: Vec<u8>) -> Vec<u8> {
    match datatype {
        DataType::Bool => data.iter_mut().for_each(|byte| *byte &= 1),
        DataType::Fp32 => {
            for chunk in data.as_chunks_mut::<4>().0 {
                if f32::from_le_bytes(*chunk).is_nan() {
                    *chunk = f32::NAN.to_le_bytes();
                }
            }
        }
        DataType::Fp64 => {
            for chunk in data.as_chunks_mut::<8>().0 {
                if f64::from_le_bytes(*chunk).is_nan() {
                    *chunk = f64::NAN.to_le_bytes();
                }
            }
        }
        DataType::Uint8
        | DataType::Uint16
        | DataType::Uint32
        | DataType::Uint64
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Fp16
        | DataType::Bf16
        | DataType::Bytes => {}
    }
    data
}

/// Decodes a response's body as a request that has the outputs as inputs.
fn echo(encoded: Encoded) -> InferRequest {
    let json = String::from_utf8(encoded.json.to_vec()).unwrap();
    let json = json.replacen("\"outputs\":[{", "\"inputs\":[{", 1);
    let length = json.len();
    let body: Bytes = [json.as_bytes(), &encoded.blobs.concat()].concat().into();
    decode_request("m", "", body, Some(length), &Limits::DEFAULT).unwrap()
}

#[track_caller]
fn check(tensor: &Tensor, delivery: Delivery) {
    let encoded = encode_response(&response(vec![(tensor.clone(), delivery)])).unwrap();
    let request = echo(encoded);
    let input = &request.inputs[0];
    assert_eq!((input.datatype, &input.shape), (tensor.datatype(), tensor.shape()));
    assert_eq!(inline_data(&input.source), tensor.data());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn binary(tensor in tensors()) {
        check(&tensor, Delivery::Binary);
    }

    #[test]
    fn json(tensor in tensors()) {
        if !matches!(tensor.datatype(), DataType::Fp16 | DataType::Bf16) {
            check(&tensor, Delivery::Json);
        }
    }
}
