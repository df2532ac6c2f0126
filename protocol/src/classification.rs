//! The classification extension: returns the best classes instead of a tensor of scores.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::num::NonZeroUsize;

use bytes::Bytes;

use crate::{Batching, Code, Coded, DataType, Shape, ShapeError, Tensor, TensorError};

/// Maximum number of scores per row, which is Triton's limit, and of classes in all rows together. Each class is a
/// string of about 20 bytes, so without a limit a request of a few megabytes could have a response of hundreds.
const MAX_ELEMENTS: usize = 1_000_000;

/// Error of selecting an output's best classes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassificationError {
    /// The datatype has no order, or Triton does not sort it.
    #[error("class result not available for output due to unsupported type '{0}'")]
    Unsupported(DataType),
    /// There are more than a million scores per row, or more than a million classes in all rows.
    #[error("classification output tensor too large")]
    TooLarge,
    /// Impossible for a tensor made by [`Tensor::new`].
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Impossible for a tensor made by [`Tensor::new`].
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

impl Coded for ClassificationError {
    fn code(&self) -> Code {
        match self {
            Self::Unsupported(_) | Self::TooLarge => Code::InvalidArgument,
            Self::Shape(_) | Self::Tensor(_) => Code::Internal,
        }
    }
}

/// Converts scores to a BYTES tensor of `value:index[:label]`, best first, `classes` per row. The shape is `[rows, n]`
/// with a batch dimension and `[n]` without, where n is at most the number of scores in a row. Equal scores keep the
/// order of their indices; NaN comes last. An empty label is omitted.
///
/// # Errors
/// [`ClassificationError`] for BYTES, BOOL, FP16 and BF16, and if there are more than a million scores per row or
/// classes in all.
pub fn classification(
    tensor: &Tensor,
    batching: Batching,
    classes: NonZeroUsize,
    labels: &[String],
) -> Result<Tensor, ClassificationError> {
    let dims = tensor.shape().dims();
    let (rows, row_dims) = match (batching, dims) {
        (Batching::FirstDimension, [rows, rest @ ..]) => (Some(*rows), rest),
        (Batching::FirstDimension, []) | (Batching::None, _) => (None, dims),
    };
    let per_row = row_dims.iter().product::<usize>();
    if per_row > MAX_ELEMENTS {
        return Err(ClassificationError::TooLarge);
    }
    let count = per_row.min(classes.get());
    if rows.unwrap_or(1).saturating_mul(count) > MAX_ELEMENTS {
        return Err(ClassificationError::TooLarge);
    }
    let scores = Scores::of(tensor)?;
    let mut data = Vec::new();
    if per_row > 0 {
        let mut order = Vec::with_capacity(per_row);
        for row in 0..rows.unwrap_or(1) {
            order.clear();
            order.extend(0..per_row);
            scores.choose(row * per_row, count, &mut order);
            for &index in &order {
                scores.push_class(row * per_row, index, labels, &mut data);
            }
        }
    }
    let dims: Vec<i64> = rows.into_iter().chain([count]).map(|dim| dim as i64).collect();
    let name = tensor.name().to_owned();
    let shape = Shape::new(&dims)?;
    Ok(Tensor::new(name, DataType::Bytes, shape, Bytes::from(data))?)
}

/// Scores, converted to the widest type of their kind. Widening changes neither the order nor the text of a score.
enum Scores {
    Unsigned(Vec<u64>),
    Signed(Vec<i64>),
    Real(Vec<f64>),
}

impl Scores {
    fn of(tensor: &Tensor) -> Result<Self, ClassificationError> {
        let data = tensor.data();
        Ok(match tensor.datatype() {
            DataType::Uint8 => Self::Unsigned(widen(data, |[byte]| u64::from(byte))),
            DataType::Uint16 => Self::Unsigned(widen(data, |le| u16::from_le_bytes(le).into())),
            DataType::Uint32 => Self::Unsigned(widen(data, |le| u32::from_le_bytes(le).into())),
            DataType::Uint64 => Self::Unsigned(widen(data, u64::from_le_bytes)),
            DataType::Int8 => Self::Signed(widen(data, |le| i8::from_le_bytes(le).into())),
            DataType::Int16 => Self::Signed(widen(data, |le| i16::from_le_bytes(le).into())),
            DataType::Int32 => Self::Signed(widen(data, |le| i32::from_le_bytes(le).into())),
            DataType::Int64 => Self::Signed(widen(data, i64::from_le_bytes)),
            DataType::Fp32 => Self::Real(widen(data, |le| f32::from_le_bytes(le).into())),
            DataType::Fp64 => Self::Real(widen(data, f64::from_le_bytes)),
            other @ (DataType::Bool | DataType::Fp16 | DataType::Bf16 | DataType::Bytes) => {
                return Err(ClassificationError::Unsupported(other));
            }
        })
    }

    /// Leaves the indices of the `count` best scores of a row in `order`, best first.
    fn choose(&self, start: usize, count: usize, order: &mut Vec<usize>) {
        match self {
            Self::Unsigned(all) => best(order, count, |a, b| all[start + b].cmp(&all[start + a])),
            Self::Signed(all) => best(order, count, |a, b| all[start + b].cmp(&all[start + a])),
            Self::Real(all) => best(order, count, |a, b| descending(all[start + a], all[start + b])),
        }
    }

    /// Appends `value:index[:label]` with its length prefix.
    fn push_class(&self, start: usize, index: usize, labels: &[String], data: &mut Vec<u8>) {
        let mut text = match self {
            Self::Unsigned(all) => all[start + index].to_string(),
            Self::Signed(all) => all[start + index].to_string(),
            Self::Real(all) => format_real(all[start + index]),
        };
        // Writing to a `String` never fails.
        let _ = write!(text, ":{index}");
        if let Some(label) = labels.get(index).filter(|label| !label.is_empty()) {
            text.push(':');
            text.push_str(label);
        }
        data.extend_from_slice(&(text.len() as u32).to_le_bytes());
        data.extend_from_slice(text.as_bytes());
    }
}

/// Leaves the `count` first indices by `compare`, in order; equal ones are ordered by index. Only the selected indices
/// are sorted, because clients request few classes of many.
fn best(order: &mut Vec<usize>, count: usize, compare: impl Fn(usize, usize) -> Ordering) {
    let by = |a: &usize, b: &usize| compare(*a, *b).then(a.cmp(b));
    if count < order.len() {
        order.select_nth_unstable_by(count, by);
        order.truncate(count);
    }
    order.sort_unstable_by(by);
}

fn widen<const N: usize, T>(data: &[u8], convert: impl Fn([u8; N]) -> T) -> Vec<T> {
    data.as_chunks::<N>().0.iter().map(|le| convert(*le)).collect()
}

fn descending(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => b.partial_cmp(&a).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    }
}

/// Formats a number with six decimals, like `%f` in C.
fn format_real(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:.6}") }
}
