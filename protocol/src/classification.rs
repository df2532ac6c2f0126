//! The classification extension: the best classes in place of a tensor of scores.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::num::NonZeroUsize;

use bytes::Bytes;

use crate::{Batching, Code, Coded, DataType, Shape, ShapeError, Tensor, TensorError};

/// The most scores per row, which is Triton's limit, and the most classes of all rows together: each is a string of
/// some 20 bytes, so that a request of some megabytes would have an answer of hundreds.
const MAX_ELEMENTS: usize = 1_000_000;

/// A failure to pick an output's best classes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassificationError {
    /// A datatype without an order, or one that Triton does not sort.
    #[error("class result not available for output due to unsupported type '{0}'")]
    Unsupported(DataType),
    /// More scores per row, or more classes of all rows, than the limit of a million.
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

/// Turns scores into a BYTES tensor of `value:index[:label]`, best first, `classes` per row. The shape
/// is `[rows, n]` with a batch dimension and `[n]` without, where n is at most the scores of a row.
/// Equal scores keep the order of their indices; NaN comes last. An empty label is none.
///
/// # Errors
/// [`ClassificationError`] for BYTES, BOOL, FP16 and BF16, and for more than a million scores per row or classes.
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

/// Scores in the widest type of their kind: widening keeps both order and text.
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

    /// Leaves the `count` best of a row's indices in `order`, best first.
    fn choose(&self, start: usize, count: usize, order: &mut Vec<usize>) {
        match self {
            Self::Unsigned(all) => best(order, count, |a, b| all[start + b].cmp(&all[start + a])),
            Self::Signed(all) => best(order, count, |a, b| all[start + b].cmp(&all[start + a])),
            Self::Real(all) => best(order, count, |a, b| descending(all[start + a], all[start + b])),
        }
    }

    /// Appends `value:index[:label]` with its length.
    fn push_class(&self, start: usize, index: usize, labels: &[String], data: &mut Vec<u8>) {
        let mut text = match self {
            Self::Unsigned(all) => all[start + index].to_string(),
            Self::Signed(all) => all[start + index].to_string(),
            Self::Real(all) => format_real(all[start + index]),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, ":{index}");
        if let Some(label) = labels.get(index).filter(|label| !label.is_empty()) {
            text.push(':');
            text.push_str(label);
        }
        data.extend_from_slice(&(text.len() as u32).to_le_bytes());
        data.extend_from_slice(text.as_bytes());
    }
}

/// Leaves the `count` least of the indices, in order; equal ones by their numbers. All but these are only looked at:
/// clients want few classes of many.
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

/// Formats as C's `%f` does: six decimals.
fn format_real(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:.6}") }
}
