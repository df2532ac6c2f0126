//! Tests BYTES inputs and outputs.

use bytes::Bytes;
use weir_protocol::{DataType, Tensor};

use crate::fixture::*;

fn encode(texts: &[&[u8]]) -> Bytes {
    let elements = texts.iter().flat_map(|text| {
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        length.into_iter().chain(text.iter().copied())
    });
    elements.collect()
}

fn texts(tensor: &Tensor) -> Vec<&[u8]> {
    tensor.strings().collect()
}

#[test]
fn strings_go_through_the_model() {
    let t = |name| tensor(name, DataType::Bytes, &[-1]);
    let mut instance = instance(&configured("strings", 0, vec![t("texts")], vec![t("y")]));
    let request = whole("texts", DataType::Bytes, &[2], encode(&[b"abc", b""]));
    let outputs = run(&mut *instance, vec![request]).unwrap();
    assert_eq!(outputs[0].shape().dims(), [2]);
    assert_eq!(texts(&outputs[0]), [&b"CBA"[..], b""]);
}

#[test]
fn nul_and_invalid_utf8_survive() {
    let t = |name| tensor(name, DataType::Bytes, &[-1]);
    let mut instance = instance(&configured("strings_identity", 0, vec![t("texts")], vec![t("y")]));
    let odd: [&[u8]; 4] = [b"a\0b", b"\xff\xfe", "é".as_bytes(), b""];
    let request = whole("texts", DataType::Bytes, &[4], encode(&odd));
    let outputs = run(&mut *instance, vec![request]).unwrap();
    assert_eq!(texts(&outputs[0]), odd);
}

#[test]
fn batched_strings_keep_their_rows() {
    let t = |name| tensor(name, DataType::Bytes, &[2]);
    let mut instance = instance(&configured("strings", 4, vec![t("texts")], vec![t("y")]));
    let parts: [(&[i64], Bytes); 2] = [(&[1, 2], encode(&[b"a", b"bc"])), (&[1, 2], encode(&[b"d", b"ef"]))];
    let request = column("texts", DataType::Bytes, &[2, 2], &parts);
    let outputs = run(&mut *instance, vec![request]).unwrap();
    assert_eq!(outputs[0].shape().dims(), [2, 2]);
    assert_eq!(texts(&outputs[0]), [&b"A"[..], b"CB", b"D", b"FE"]);
}

#[test]
fn strings_become_tensors() {
    let source = configured(
        "lengths",
        0,
        vec![tensor("texts", DataType::Bytes, &[-1])],
        vec![tensor("n", DataType::Int64, &[-1])],
    );
    let request = whole("texts", DataType::Bytes, &[2], encode(&[b"abc", b""]));
    let outputs = run(&mut *instance(&source), vec![request]).unwrap();
    assert_eq!(*outputs[0].data(), ints(&[3, 0]));
}
