//! Compares the outputs of a row in two runs.

use bytes::Bytes;
use weir_protocol::DataType;
use weir_runtime::backend::TensorConfig;

use crate::execution::runner::{Placement, RunOutput, Runner};
use crate::libtorch::element::{self, is_float};
use crate::loading::infer::samples::strings;

/// A row's part of one output.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowOutput {
    datatype: Option<DataType>,
    /// Dimensions, without the batch dimension.
    sizes: Vec<i64>,
    data: Bytes,
}

/// Largest difference between elements of two rows that counts as rounding noise, relative to the largest element of
/// both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    /// Limit between batches of one size, in which the same kernels add in the same order.
    pub(super) same_kernels: f64,
    /// Limit between batches of different sizes.
    pub(super) other_kernels: f64,
}

/// Tolerance of models entirely in double precision, which has 16 digits.
const DOUBLE: Tolerance = Tolerance { same_kernels: 1e-14, other_kernels: 1e-10 };

/// Tolerance of single precision. With the same kernels: eight units in the last place, because a model's own code may
/// group rows. With other kernels: deep models lose three of their seven digits when sums are added in another order.
const SINGLE: Tolerance = Tolerance { same_kernels: 1e-6, other_kernels: 1e-4 };

/// Tolerance of half precision, and of single precision on a GPU, where some convolution kernels keep ten bits (TF32).
const HALF: Tolerance = Tolerance { same_kernels: 2e-3, other_kernels: 2e-2 };

/// Tolerance of bfloat16, which has eight bits.
const BRAIN: Tolerance = Tolerance { same_kernels: 1.6e-2, other_kernels: 6e-2 };

impl Tolerance {
    /// Chooses the tolerance of the coarsest float type among inputs, outputs and weights; single precision if there is
    /// no float type.
    pub(super) fn of(runner: &Runner, inputs: &[TensorConfig], outputs: &[RunOutput]) -> Self {
        let weights = runner.module.parameters();
        let types = inputs
            .iter()
            .map(|input| Some(input.datatype))
            .chain(outputs.iter().map(|output| output.datatype))
            .chain(weights.iter().map(|weight| element::datatype(weight.element_type)));
        let coarsest = types.flatten().filter(|datatype| is_float(*datatype));
        let of_types = coarsest
            .map(Self::of_type)
            .reduce(|one, other| if other.same_kernels > one.same_kernels { other } else { one })
            .unwrap_or(SINGLE);
        match runner.placement {
            Placement::Processor => of_types,
            Placement::Cuda(_) => Self { other_kernels: of_types.other_kernels.max(HALF.other_kernels), ..of_types },
        }
    }

    fn of_type(datatype: DataType) -> Self {
        match datatype {
            DataType::Fp64 => DOUBLE,
            DataType::Fp16 => HALF,
            DataType::Bf16 => BRAIN,
            DataType::Fp32
            | DataType::Bool
            | DataType::Uint8
            | DataType::Uint16
            | DataType::Uint32
            | DataType::Uint64
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Bytes => SINGLE,
        }
    }
}

/// Splits an output into rows; `None` if it does not have one part per row.
pub(super) fn rows_of(output: &RunOutput, rows: usize) -> Option<Vec<RowOutput>> {
    let (first, inner) = output.sizes.split_first()?;
    if usize::try_from(*first) != Ok(rows) || rows == 0 {
        return None;
    }
    let parts: Vec<Bytes> = if output.datatype == Some(DataType::Bytes) {
        let all = strings(&output.data);
        let per_row = all.len() / rows;
        let complete = all.len() == per_row * rows;
        let part = |row| Bytes::from(all[row * per_row..(row + 1) * per_row].concat());
        if complete { (0..rows).map(part).collect() } else { Vec::new() }
    } else {
        let size = output.data.len() / rows;
        let part = |row| output.data.slice(row * size..(row + 1) * size);
        (0..rows).map(part).collect()
    };
    let part = |data| RowOutput { datatype: output.datatype, sizes: inner.to_vec(), data };
    (parts.len() == rows).then(|| parts.into_iter().map(part).collect())
}

/// Describes the first difference between a row's outputs in two runs that exceeds the tolerance.
pub(super) fn first_difference(one: &[RowOutput], other: &[RowOutput], tolerance: f64) -> Option<String> {
    if one.len() != other.len() {
        return Some(format!("the number of outputs changes ({}, {})", one.len(), other.len()));
    }
    let mut outputs = one.iter().zip(other).enumerate();
    outputs.find_map(|(index, (one, other))| {
        difference(one, other, tolerance).map(|what| format!("output {index} of a row changes {what}"))
    })
}

fn difference(one: &RowOutput, other: &RowOutput, tolerance: f64) -> Option<String> {
    if one.datatype != other.datatype {
        return Some("its datatype".to_owned());
    }
    if one.sizes != other.sizes {
        return Some(format!("its shape ({:?}, {:?})", one.sizes, other.sizes));
    }
    let Some(datatype) = one.datatype.filter(|datatype| is_float(*datatype)) else {
        return (one.data != other.data).then(String::new);
    };
    let (one, other) = (element::decode(datatype, &one.data), element::decode(datatype, &other.data));
    let distance = distance(&one, &other);
    // A NaN distance counts as a difference.
    let is_noise = distance <= tolerance;
    (!is_noise).then(|| format!("by {distance:.1e} of its largest element"))
}

/// Returns the largest difference of two elements, relative to the largest finite element. Equal infinities and two NaN
/// count as equal.
fn distance(one: &[f64], other: &[f64]) -> f64 {
    if one.len() != other.len() {
        return f64::INFINITY;
    }
    let finite = one.iter().chain(other).filter(|element| element.is_finite());
    let largest = finite.fold(0.0, |largest: f64, element| largest.max(element.abs()));
    let apart = |(one, other): (&f64, &f64)| {
        if one == other || (one.is_nan() && other.is_nan()) {
            return 0.0;
        }
        let apart = (one - other).abs() / largest;
        if apart.is_nan() { f64::INFINITY } else { apart }
    };
    one.iter().zip(other).map(apart).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn distances_are_relative_to_the_outputs_own_scale() {
        for (one, other, expected) in [
            (vec![1.0, 2.0], vec![1.0, 2.0], 0.0),
            (vec![1.0, 2.0], vec![1.0, 4.0], 0.5),
            (vec![0.001, 0.002], vec![0.001, 0.004], 0.5),
            (vec![0.0], vec![1e-30], 1.0),
            (vec![f64::NAN, f64::INFINITY], vec![f64::NAN, f64::INFINITY], 0.0),
            (vec![f64::NAN, 1.0], vec![1.0, 1.0], f64::INFINITY),
            (vec![f64::INFINITY, 1.0], vec![1.0, 1.0], f64::INFINITY),
            (vec![f64::INFINITY], vec![f64::NEG_INFINITY], f64::INFINITY),
            (vec![1.0], vec![1.0, 1.0], f64::INFINITY),
            (vec![], vec![], 0.0),
        ] {
            assert_eq!(distance(&one, &other), expected, "{one:?} {other:?}");
        }
    }

    proptest! {
        #[test]
        fn the_unit_of_an_output_changes_nothing(
            elements in proptest::collection::vec((-1.0..1.0_f64, -1.0..1.0_f64), 1..20),
            power in -60..60_i32,
        ) {
            let unit = 2_f64.powi(power);
            let of = |unit: f64| {
                let (one, other): (Vec<f64>, Vec<f64>) =
                    elements.iter().map(|(one, other)| (one * unit, other * unit)).unzip();
                distance(&one, &other)
            };
            prop_assert_eq!(of(unit), of(1.0));
        }
    }

    #[test]
    fn strings_are_split_by_row() {
        let text = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        let output = |rows, data: Vec<Vec<u8>>| RunOutput {
            datatype: Some(DataType::Bytes),
            sizes: vec![rows],
            data: Bytes::from(data.concat()),
            path: None,
        };
        let rows = rows_of(&output(2, vec![text("a"), text("bcd")]), 2).unwrap();
        assert_eq!(rows[1].data, text("bcd"));
        assert_eq!(first_difference(&rows[..1], &rows[..1], 0.0), None);
        assert!(first_difference(&rows[..1], &rows[1..], 0.0).is_some());
        assert_eq!(rows_of(&output(2, vec![text("a")]), 2), None);
        assert_eq!(rows_of(&output(1, vec![text("a")]), 2), None);
    }
}
