use std::num::NonZeroUsize;

use weir_protocol::{Batching, ClassificationError, DataType, Tensor, classification};

use crate::response::tensor;

fn classes(
    scores: &Tensor,
    batching: Batching,
    classes: usize,
    labels: &[&str],
) -> Result<(Vec<usize>, Vec<String>), ClassificationError> {
    let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
    let best = classification(scores, batching, NonZeroUsize::new(classes).unwrap(), &labels)?;
    assert_eq!((best.name(), best.datatype()), (scores.name(), DataType::Bytes));
    let strings = best.strings().map(|text| String::from_utf8_lossy(text).into_owned());
    Ok((best.shape().dims().to_vec(), strings.collect()))
}

fn floats(dims: &[i64], values: &[f32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor("y", DataType::Fp32, dims, &data)
}

#[test]
fn the_best_come_first_in_each_row() {
    let scores = floats(&[2, 3], &[0.1, 0.7, 0.2, 5.0, -1.0, 5.0]);
    let (dims, strings) = classes(&scores, Batching::FirstDimension, 2, &["a", "b"]).unwrap();
    assert_eq!(dims, [2, 2]);
    assert_eq!(strings, ["0.700000:1:b", "0.200000:2", "5.000000:0:a", "5.000000:2"]);
}

#[test]
fn without_batch_all_elements_are_one_row() {
    let scores = floats(&[2, 2], &[1.0, f32::NAN, f32::INFINITY, -0.5]);
    let (dims, strings) = classes(&scores, Batching::None, 9, &[]).unwrap();
    assert_eq!(dims, [4]);
    assert_eq!(strings, ["inf:2", "1.000000:0", "-0.500000:3", "nan:1"]);
}

#[test]
fn an_empty_label_is_omitted() {
    let scores = floats(&[1, 2], &[2.0, 1.0]);
    let (_, strings) = classes(&scores, Batching::FirstDimension, 2, &["", "b"]).unwrap();
    assert_eq!(strings, ["2.000000:0", "1.000000:1:b"]);
}

#[test]
fn the_selected_classes_are_the_first_of_a_full_sort() {
    // Each score occurs several times, and some scores are NaN.
    let score = |i: i32| {
        if i % 97 == 0 { f32::NAN } else { (i * 7919 % 101) as f32 }
    };
    let scores: Vec<f32> = (0..1000).map(score).collect();
    let mut order: Vec<usize> = (0..1000).collect();
    let rank = |i: usize| (scores[i].is_nan(), -scores[i] as i32);
    order.sort_by_key(|&i| rank(i));
    for count in [1, 2, 30, 985, 999, 1000, 1001] {
        let scores = floats(&[1000], &scores);
        let (_, strings) = classes(&scores, Batching::None, count, &[]).unwrap();
        let indices = strings.iter().map(|text| text.split(':').nth(1).unwrap().parse::<usize>().unwrap());
        let expected = &order[..count.min(1000)];
        assert_eq!(indices.collect::<Vec<_>>(), expected, "{count}");
    }
}

#[test]
fn integers_have_no_decimals() {
    let scores = tensor("y", DataType::Int8, &[1, 3], &[3, 0x80, 7]);
    let (_, strings) = classes(&scores, Batching::FirstDimension, 3, &["x"]).unwrap();
    assert_eq!(strings, ["7:2", "3:0:x", "-128:1"]);
    let scores = tensor("y", DataType::Uint64, &[1, 1], &[0xff; 8]);
    let (_, strings) = classes(&scores, Batching::FirstDimension, 3, &[]).unwrap();
    assert_eq!(strings, ["18446744073709551615:0"]);
}

#[test]
fn rows_without_scores_have_no_classes() {
    let (dims, strings) = classes(&floats(&[2, 0], &[]), Batching::FirstDimension, 1, &[]).unwrap();
    assert_eq!((dims, strings.len()), (vec![2, 0], 0));
}

#[test]
fn datatypes_without_order_are_refused() {
    for datatype in [DataType::Bool, DataType::Fp16, DataType::Bf16, DataType::Bytes] {
        let scores = tensor("y", datatype, &[1, 0], &[]);
        let error = classes(&scores, Batching::FirstDimension, 1, &[]).unwrap_err();
        let words = format!("class result not available for output due to unsupported type '{datatype}'");
        assert_eq!(error.to_string(), words);
    }
    let scores = tensor("y", DataType::Uint8, &[1, 1_000_001], &vec![0; 1_000_001]);
    let error = classes(&scores, Batching::FirstDimension, 1, &[]).unwrap_err();
    assert_eq!(error.to_string(), "classification output tensor too large");
}

#[test]
fn an_answer_has_a_million_classes_at_most() {
    let scores = tensor("y", DataType::Uint8, &[2, 500_001], &vec![0; 1_000_002]);
    let of = |count| classes(&scores, Batching::FirstDimension, count, &[]);
    let error = of(500_001).unwrap_err();
    assert_eq!(error.to_string(), "classification output tensor too large");
    assert_eq!(of(1).unwrap().0, [2, 1]);
}
