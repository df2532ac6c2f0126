use proptest::prelude::*;
use prost::Message as _;

use super::super::proto::infer_parameter::ParameterChoice;
use super::*;

fn footprint(bytes: &[u8]) -> Result<usize, TooManyParts> {
    let mut footprint = Footprint::of_infer(bytes.len());
    footprint.feed(bytes)?;
    Ok(footprint.decoded_bytes())
}

fn input(contents: InferTensorContents) -> ModelInferRequest {
    ModelInferRequest {
        inputs: vec![InferInputTensor { contents: Some(contents), ..Default::default() }],
        ..Default::default()
    }
}

#[test]
fn too_many_tensors_or_parameters_are_refused() {
    // Fields 5, 6 and 7 (tensors) and 4 (a parameter), each of them empty: two bytes.
    for (tag, error) in [
        (0x2a, TooManyParts::Tensors),
        (0x32, TooManyParts::Tensors),
        (0x3a, TooManyParts::Tensors),
        (0x22, TooManyParts::Parameters),
    ] {
        assert!(footprint(&[tag, 0].repeat(4096)).is_ok());
        assert_eq!(footprint(&[tag, 0].repeat(4097)), Err(error));
    }
    // The parameters of tensors count as well.
    let one = [0x2a, 4, 0x22, 0, 0x22, 0];
    assert_eq!(footprint(&one.repeat(2049)), Err(TooManyParts::Parameters));
}

#[test]
fn claimed_lengths_beyond_the_message_do_not_count() {
    // A name of 34 GB, and a tensor that contains one.
    for message in [&b"\x0a\xff\xff\xff\xff\x7f"[..], b"\x2a\x06\x0a\xff\xff\xff\xff\x7f"] {
        assert!(footprint(message).unwrap() < 2_000);
    }
}

#[test]
fn a_load_has_a_bound_on_its_parameters() {
    let mut footprint = Footprint::of_load(10_000);
    assert_eq!(footprint.feed(&[0x1a, 0].repeat(4096)), Ok(()));
    assert_eq!(footprint.feed(&[0x1a, 0]), Err(TooManyParts::Parameters));
}

#[test]
fn small_elements_count_with_their_decoded_size() {
    let integers = input(InferTensorContents { int64_contents: vec![1; 1000], ..Default::default() });
    let strings = input(InferTensorContents { bytes_contents: vec![Bytes::new(); 1000], ..Default::default() });
    let floats = input(InferTensorContents { fp32_contents: vec![0.5; 1000], ..Default::default() });
    for (request, least) in [(integers, 8_000), (strings, 32_000), (floats, 4_000)] {
        let bytes = footprint(&request.encode_to_vec()).unwrap();
        assert!((least..2 * least + 2_000).contains(&bytes), "{bytes} for {least}");
    }
}

#[test]
fn raw_data_is_not_counted_again() {
    let request = ModelInferRequest { raw_input_contents: vec![vec![7; 1 << 20].into()], ..Default::default() };
    assert!(footprint(&request.encode_to_vec()).unwrap() < 1_000);
}

fn contents() -> impl Strategy<Value = InferTensorContents> {
    let bytes = prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    (
        prop::collection::vec(any::<i64>(), 0..20),
        prop::collection::vec(any::<u32>(), 0..20),
        prop::collection::vec(any::<f64>(), 0..20),
        prop::collection::vec(bytes, 0..20),
    )
        .prop_map(|(int64_contents, uint_contents, fp64_contents, bytes_contents)| InferTensorContents {
            int64_contents,
            uint_contents,
            fp64_contents,
            bytes_contents,
            ..Default::default()
        })
}

fn request() -> impl Strategy<Value = ModelInferRequest> {
    let parameter =
        "[a-z]{0,30}".prop_map(|text| InferParameter { parameter_choice: Some(ParameterChoice::StringParam(text)) });
    let parameters = prop::collection::btree_map("[a-z]{1,9}", parameter, 0..5);
    let shape = prop::collection::vec(any::<i64>(), 0..10);
    let input = (shape, contents(), parameters).prop_map(|(shape, contents, parameters)| InferInputTensor {
        shape,
        parameters,
        contents: Some(contents),
        ..Default::default()
    });
    let raw = prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    (prop::collection::vec(input, 0..5), prop::collection::vec(raw, 0..5)).prop_map(|(inputs, raw_input_contents)| {
        ModelInferRequest { model_name: "model".to_owned(), inputs, raw_input_contents, ..Default::default() }
    })
}

proptest! {
    #[test]
    fn the_estimate_covers_what_decoding_takes(request in request()) {
        let bytes = request.encode_to_vec();
        let raw: usize = request.raw_input_contents.iter().map(Bytes::len).sum();
        let decoded = ModelInferRequest::decode(&bytes[..]).unwrap();
        prop_assert!(footprint(&bytes).unwrap() + bytes.len() >= held_bytes(&decoded));
        prop_assert!(held_bytes(&decoded) >= raw);
    }

    #[test]
    fn the_estimate_does_not_depend_on_the_size_of_pieces(
        request in request(),
        cuts in prop::collection::vec(1..40_usize, 0..30),
    ) {
        let bytes = request.encode_to_vec();
        let (mut pieces, mut rest) = (Footprint::of_infer(bytes.len()), &bytes[..]);
        for cut in cuts.into_iter().chain([usize::MAX]) {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.feed(piece).unwrap();
            rest = after;
        }
        prop_assert_eq!(pieces.decoded_bytes(), footprint(&bytes).unwrap());
    }

    #[test]
    fn arbitrary_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let estimate = footprint(&bytes);
        if let (Ok(estimate), Ok(decoded)) = (estimate, ModelInferRequest::decode(&bytes[..])) {
            prop_assert!(estimate + bytes.len() >= held_bytes(&decoded));
        }
    }
}
