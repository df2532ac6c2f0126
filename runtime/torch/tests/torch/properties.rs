//! Tests properties that hold for all inputs.

use bytes::Bytes;
use proptest::prelude::*;
use weir_protocol::DataType;

use crate::fixture::*;

/// Generates requests of one to three rows of 16 floats.
fn requests() -> impl Strategy<Value = Vec<Vec<f32>>> {
    let request = (1..=3_usize).prop_flat_map(|rows| proptest::collection::vec(-10.0..10.0_f32, rows * 16));
    proptest::collection::vec(request, 1..8)
}

proptest! {
    /// Requests in a batch have the same outputs as alone.
    #[test]
    fn batched_outputs_equal_single_ones(requests in requests()) {
        let mut instance = instance(&configured(
            "mlp",
            32,
            vec![tensor("input", DataType::Fp32, &[16])],
            vec![tensor("y", DataType::Fp32, &[4])],
        ));
        let shapes: Vec<[i64; 2]> = requests.iter().map(|data| [data.len() as i64 / 16, 16]).collect();
        let parts: Vec<(&[i64], Bytes)> = shapes
            .iter()
            .zip(&requests)
            .map(|(shape, data)| (shape.as_slice(), floats(data)))
            .collect();
        let rows: i64 = shapes.iter().map(|shape| shape[0]).sum();
        let together = run(&mut *instance, vec![column("input", DataType::Fp32, &[rows, 16], &parts)]);
        let together = as_floats(&together.unwrap()[0]);
        let mut alone = Vec::new();
        for (shape, data) in parts {
            let outputs = run(&mut *instance, vec![whole("input", DataType::Fp32, shape, data)]).unwrap();
            alone.extend(as_floats(&outputs[0]));
        }
        prop_assert_eq!(together.len(), alone.len());
        for (left, right) in together.iter().zip(&alone) {
            prop_assert!((left - right).abs() <= 1e-5 * (1.0 + left.abs()), "{} {}", left, right);
        }
    }

    /// Padding to any length does not change the outputs of a model that applies its mask.
    #[test]
    fn padding_changes_nothing_behind_a_mask(
        lengths in proptest::collection::vec(1..9_usize, 1..6),
        longer in 0..5_usize,
    ) {
        let mut instance = instance(&configured(
            "masked_mean",
            32,
            vec![tensor("x", DataType::Fp32, &[-1]), tensor("mask", DataType::Int64, &[-1])],
            vec![tensor("y", DataType::Fp32, &[1])],
        ));
        let longest = lengths.iter().max().unwrap() + longer;
        let batch = [lengths.len() as i64, longest as i64];
        let shapes: Vec<[i64; 2]> = lengths.iter().map(|length| [1, *length as i64]).collect();
        let data = |length: &usize| (0..*length).map(|at| at as f32).collect::<Vec<_>>();
        let x: Vec<(&[i64], Bytes)> =
            shapes.iter().zip(&lengths).map(|(s, l)| (s.as_slice(), floats(&data(l)))).collect();
        let mask: Vec<(&[i64], Bytes)> =
            shapes.iter().zip(&lengths).map(|(s, l)| (s.as_slice(), ints(&vec![1; *l]))).collect();
        let outputs = run(&mut *instance, vec![
            column("x", DataType::Fp32, &batch, &x),
            column("mask", DataType::Int64, &batch, &mask),
        ]);
        for (mean, length) in as_floats(&outputs.unwrap()[0]).iter().zip(&lengths) {
            prop_assert!((mean - (*length as f32 - 1.0) / 2.0).abs() < 1e-5);
        }
    }
}
