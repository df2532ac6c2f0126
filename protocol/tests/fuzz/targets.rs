//! The fuzzed decoders and their invariants. Each check returns `ok` or the error's message.

use bytes::Bytes;
use weir_protocol::rest::{
    Limits, RestError, TargetModel, decode_generate, decode_index, decode_load, decode_predict, decode_raw,
    decode_request, decode_unload, encode_generate, encode_predict, encode_response, parse_header_length,
};
use weir_protocol::{
    Batching, DataType, Delivery, InferRequest, InferResponse, Parameters, Source, Tensor, TensorSpec,
};

/// A decoder to fuzz, with its seeds.
pub(crate) struct FuzzTarget {
    pub(crate) name: &'static str,
    pub(crate) seeds: &'static [&'static [u8]],
    pub(crate) check: fn(&[u8]) -> String,
}

/// All decoders of bytes that clients send.
pub(crate) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "request", seeds: REQUESTS, check: request },
    FuzzTarget { name: "binary", seeds: BINARY, check: binary },
    FuzzTarget { name: "reader", seeds: DOCUMENTS, check: reader },
    FuzzTarget { name: "generate", seeds: GENERATE, check: generate },
    FuzzTarget { name: "predict", seeds: PREDICT, check: predict },
    FuzzTarget { name: "small", seeds: SMALL, check: small },
];

const REQUESTS: &[&[u8]] = &[
    br#"{"id":"7","parameters":{"priority":2,"note":"a","f":1.5,"b":true},"inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[[1,2.5],[-3e-7,NaN]]},{"name":"s","shape":[2],"datatype":"BYTES","data":["a","\u00e9\n"]}],"outputs":[{"name":"y","parameters":{"binary_data":true}},{"name":"z","parameters":{"classification":3}}]}"#,
    br#"{"inputs":[{"data":[1,-2,3],"name":"x","shape":[3],"datatype":"INT64"},{"name":"u","shape":[1],"datatype":"UINT64","data":[18446744073709551615]},{"name":"b","shape":[2],"datatype":"BOOL","data":[true,false]}]}"#,
    br#"{"inputs":[{"name":"x","shape":[1],"datatype":"FP64","parameters":{"shared_memory_region":"r","shared_memory_byte_size":8,"shared_memory_offset":0}}],"outputs":[{"name":"y","parameters":{"shared_memory_region":"r","shared_memory_byte_size":8}}],"parameters":{"binary_data_output":true}}"#,
];

const BINARY: &[&[u8]] = &[
    b"\x5b{\"inputs\":[{\"name\":\"x\",\"shape\":[2],\"datatype\":\"INT8\",\"parameters\":{\"binary_data_size\":2}}]}ab",
    b"\xab{\"inputs\":[{\"name\":\"x\",\"shape\":[2],\"datatype\":\"INT8\",\"parameters\":{\"binary_data_size\":2}},{\"name\":\"y\",\"shape\":[1],\"datatype\":\"BYTES\",\"parameters\":{\"binary_data_size\":5}}]}ab\x01\0\0\0z",
];

const DOCUMENTS: &[&[u8]] = &[
    br#"{"a":[1,2.5,-3e-7,0,-0,1E+5,{"b":[[],{}]}],"c":null,"d":"\u00e9\ud83d\ude00\n\/","e":[true,false]}"#,
    br#"[[[[1,[2,[3]]]]],"x","",{"":{"":{}}}]"#,
    b"12345678901234567890.123456789e-12",
];

const GENERATE: &[&[u8]] = &[
    br#"{"id":"7","TEXT":"hi","N":[1,2,3,4],"F":0.5,"temperature":0.5,"parameters":{"k":1,"s":"t"}}"#,
    br#"{"TEXT":["a","b"],"F":[1,NaN,Infinity]}"#,
];

const PREDICT: &[&[u8]] = &[
    br#"{"instances":[[1,2.5],[3,4],[-5e-3,6]]}"#,
    br#"{"instances":[{"x":[1,2],"s":"p"},{"s":{"b64":"AP8="},"x":[3,4]}]}"#,
    br#"{"inputs":{"x":[[1]],"s":["p"],"h":[1.5]},"signature_name":"serving_default"}"#,
    br#"{"instances":["a",{"b64":"AP8="}]}"#,
];

const SMALL: &[&[u8]] = &[
    br#"{"ready":true}"#,
    br#"{"parameters":{"config":"{}","file:1/model.pt":"AP8=","unload_dependents":true}}"#,
    b"64",
];

fn limits() -> Limits {
    Limits { max_json: 3000, max_tensors: 8 }
}

fn outcome<T>(result: Result<T, RestError>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn request(body: &[u8]) -> String {
    let body = Bytes::copy_from_slice(body);
    let decoded = decode_request("m", "1", body.clone(), None, &limits());
    if let Ok(decoded) = &decoded {
        // Data in JSON is compared with its shape when it is decoded, blobs are not. An escape may hide the word
        // `binary`.
        let json_only = !body.windows(6).any(|window| window == b"binary" || window.contains(&b'\\'));
        round_trip(decoded, json_only);
    }
    outcome(decoded)
}

/// Decodes a body whose first byte gives the number of bytes of JSON.
fn binary(body: &[u8]) -> String {
    let Some((length, body)) = body.split_first() else {
        return "empty".to_owned();
    };
    let body = Bytes::copy_from_slice(body);
    let decoded = decode_request("m", "", body.clone(), Some(usize::from(*length)), &limits());
    if let Ok(decoded) = &decoded {
        round_trip(decoded, false);
    }
    let specs = [TensorSpec {
        name: "x".to_owned(),
        datatype: DataType::ALL[usize::from(*length) % DataType::ALL.len()],
        shape: vec![-1, i64::from(*length >> 4), -1],
    }];
    let raw = decode_raw(&target(&specs), body, &limits());
    if let Ok(raw) = &raw {
        round_trip(raw, false);
    }
    outcome(decoded)
}

/// Encodes the decoded tensors as a response, and decodes that as a request.
fn round_trip(request: &InferRequest, all_fit: bool) {
    let tensors = tensors(request, all_fit);
    for delivery in [Delivery::Binary, Delivery::Json] {
        let outputs = tensors.iter().map(|tensor| (tensor.clone(), delivery.clone()));
        let Ok(encoded) = encode_response(&response(outputs.collect())) else {
            assert_eq!(delivery, Delivery::Json);
            continue;
        };
        let json = String::from_utf8(encoded.json.to_vec()).unwrap();
        let json = json.replacen("\"outputs\":[", "\"inputs\":[", 1);
        let body = [json.as_bytes(), &encoded.blobs.concat()].concat();
        let again = decode_request("m", "1", body.into(), Some(json.len()), &Limits::DEFAULT);
        let again = self::tensors(&again.unwrap(), true);
        if delivery == Delivery::Binary {
            assert_eq!(again, tensors);
        }
        // Several byte values of a boolean or a NaN have the same text in JSON, so tensors are compared by their
        // encoded text there.
        let outputs = again.into_iter().map(|tensor| (tensor, delivery.clone()));
        assert_eq!(encode_response(&self::response(outputs.collect())).unwrap(), encoded);
    }
}

fn tensors(request: &InferRequest, all_fit: bool) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    for input in &request.inputs {
        let Source::Inline(data) = &input.source else {
            continue;
        };
        let shape = input.shape.clone();
        match Tensor::new(input.name.clone(), input.datatype, shape, data.clone()) {
            Ok(tensor) => tensors.push(tensor),
            Err(error) => assert!(!all_fit, "{error}: {input:?}"),
        }
    }
    tensors
}

fn response(outputs: Vec<(Tensor, Delivery)>) -> InferResponse {
    InferResponse {
        model: "m".to_owned(),
        version: "1".to_owned(),
        id: String::new(),
        parameters: Parameters::new(),
        outputs,
    }
}

/// Compares the reader with serde_json: both accept the same documents.
fn reader(document: &[u8]) -> String {
    let body = [b"{\"inputs\":[],\"other\":", document, b"}"].concat();
    let ours = decode_request("m", "", body.clone().into(), None, &Limits::DEFAULT);
    let theirs: Result<serde_json::Value, _> = serde_json::from_slice(&body);
    let words = |word: &[u8]| document.windows(word.len()).any(|window| window == word);
    let comparable = !words(b"NaN") && !words(b"Inf") && !matches!(ours, Err(RestError::TooDeep));
    let syntax = matches!(ours, Err(RestError::Syntax { .. }));
    match theirs {
        Ok(_) => assert!(!comparable || !syntax, "serde_json accepts it: {ours:?}"),
        Err(error) if error.to_string().contains("number out of range") => {}
        // The document may contain the brace that closes the object around it. Weir's error may then be about a member
        // before the syntax error.
        Err(error) => assert!(!comparable || ours.is_err(), "serde_json refuses it: {error}"),
    }
    outcome(ours)
}

fn target(inputs: &[TensorSpec]) -> TargetModel<'_> {
    TargetModel { model: "m", version: "", inputs, batching: Batching::FirstDimension }
}

fn spec(name: &str, datatype: DataType, shape: &[i64]) -> TensorSpec {
    TensorSpec { name: name.to_owned(), datatype, shape: shape.to_vec() }
}

fn generate(body: &[u8]) -> String {
    let specs = [
        spec("TEXT", DataType::Bytes, &[-1, 1]),
        spec("N", DataType::Int32, &[-1, 2, -1]),
        spec("F", DataType::Fp64, &[-1]),
    ];
    let decoded = decode_generate(&target(&specs), body, &limits());
    if let Ok(decoded) = &decoded {
        let tensors = tensors(decoded, true);
        let outputs: Vec<_> = tensors.iter().map(|t| (t.clone(), Delivery::Json)).collect();
        let body = encode_generate(&response(outputs)).unwrap();
        let again = decode_generate(&target(&specs), &body, &Limits::DEFAULT).unwrap();
        let mut again = self::tensors(&again, true);
        again.sort_by_key(|tensor| tensors.iter().position(|t| t.name() == tensor.name()));
        assert_eq!(again, tensors);
    }
    outcome(decoded)
}

fn predict(body: &[u8]) -> String {
    let several =
        [spec("x", DataType::Fp32, &[-1, 2]), spec("s", DataType::Bytes, &[-1]), spec("h", DataType::Bf16, &[-1])];
    let mut outcomes = outcome(echo_predict(body, &several));
    for only in &several {
        outcomes.push_str(&outcome(echo_predict(body, std::slice::from_ref(only))));
    }
    outcomes
}

/// Decodes a body. If the tensors can be written as rows, decodes those and compares the tensors.
fn echo_predict(body: &[u8], specs: &[TensorSpec]) -> Result<(), RestError> {
    let decoded = decode_predict(&target(specs), body, &limits())?;
    let tensors = tensors(&decoded, true);
    let outputs = tensors.iter().map(|t| (t.clone(), Delivery::Json)).collect();
    let Ok(body) = encode_predict(&response(outputs)) else {
        return Ok(());
    };
    if tensors.is_empty() || tensors.iter().any(|tensor| tensor.shape().elements() == 0) {
        return Ok(());
    }
    let body = [b"{\"instances\":", body.strip_prefix(b"{\"predictions\":").unwrap()].concat();
    let names: Vec<&str> = tensors.iter().map(Tensor::name).collect();
    let specs: Vec<TensorSpec> = specs.iter().filter(|spec| names.contains(&spec.name.as_str())).cloned().collect();
    let again = decode_predict(&target(&specs), &body, &Limits::DEFAULT).unwrap();
    assert_eq!(self::tensors(&again, true), tensors);
    Ok(())
}

fn small(body: &[u8]) -> String {
    let length = parse_header_length(&String::from_utf8_lossy(body), 100);
    [outcome(decode_index(body)), outcome(decode_load(body)), outcome(decode_unload(body)), outcome(length)].join(" ")
}
