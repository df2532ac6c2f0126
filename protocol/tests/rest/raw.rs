use bytes::Bytes;
use weir_protocol::rest::{Limits, TargetModel, decode_raw};
use weir_protocol::{Batching, DataType, Delivery, TensorSpec};

use crate::{batching, inline_data, refused, spec};

#[track_caller]
fn check(inputs: &[TensorSpec], body: &'static [u8], dims: &[usize], data: &[u8]) {
    let body = Bytes::from_static(body);
    let request = decode_raw(&batching(inputs), body, &Limits::DEFAULT).unwrap();
    assert_eq!(request.default_delivery, Delivery::Binary);
    assert_eq!(request.inputs[0].name, inputs[0].name);
    assert_eq!(request.inputs[0].shape.dims(), dims);
    assert_eq!(inline_data(&request.inputs[0].source), data);
}

#[test]
fn shapes_are_deduced() {
    check(&[spec("x", DataType::Fp32, &[-1, 2])], &[0; 8], &[1, 2], &[0; 8]);
    check(&[spec("x", DataType::Int16, &[-1, -1])], &[0; 8], &[1, 4], &[0; 8]);
    check(&[spec("x", DataType::Int16, &[-1, 2, -1])], &[0; 8], &[1, 2, 2], &[0; 8]);
    check(&[spec("x", DataType::Int16, &[-1, 0, -1])], &[], &[1, 0, 0], &[]);
    check(&[spec("s", DataType::Bytes, &[-1, 1])], b"abc", &[1, 1], b"\x03\0\0\0abc");
}

#[test]
fn without_batch_the_first_dimension_may_vary() {
    let inputs = [spec("x", DataType::Uint8, &[-1])];
    let target = TargetModel { batching: Batching::None, ..batching(&inputs) };
    let request = decode_raw(&target, Bytes::from_static(b"abc"), &Limits::DEFAULT).unwrap();
    assert_eq!(request.inputs[0].shape.dims(), [3]);
}

#[test]
fn shapes_that_cannot_be_deduced_are_refused() {
    let check = |inputs: &[TensorSpec], words: &str| {
        let limits = Limits { max_json: 8, ..Limits::DEFAULT };
        refused(decode_raw(&batching(inputs), Bytes::from_static(&[0; 8]), &limits), words);
        let words = "Raw input has a byte_size (9 bytes) that exceeds the maximum allowed value of 8 bytes. Use --http-max-input-size to increase the limit.";
        if inputs.len() == 1 {
            refused(decode_raw(&batching(inputs), Bytes::from_static(&[0; 9]), &limits), words);
        }
    };
    let x = spec("x", DataType::Fp32, &[-1, -1, -1]);
    check(
        std::slice::from_ref(&x),
        "The shape of the raw input 'x' can not be deduced because there are more than one variable-sized dimension",
    );
    check(
        &[x.clone(), x.clone(), x],
        "Raw request must only have 1 input (found 1) to be deduced but got 3 inputs in 'm' model configuration",
    );
    check(
        &[spec("s", DataType::Bytes, &[-1, -1])],
        "For BYTE datatype raw input 's', the model must have input shape [1]",
    );
}
