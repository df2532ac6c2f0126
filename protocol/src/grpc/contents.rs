//! Typed contents as the bytes a tensor has.

use bytes::{BufMut, Bytes, BytesMut};

use super::proto::InferTensorContents;
use crate::DataType;

/// Why typed contents are not a tensor of the input's datatype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ContentsError {
    /// A field is filled that is for this datatype.
    Wrong(&'static str),
    /// A value does not fit.
    Range(i64),
    /// A BYTES element is longer than a length prefix can say.
    ElementTooLarge,
}

/// Writes the elements row-major and little-endian. How many there must be is the shape's business.
pub(super) fn encode(
    contents: &InferTensorContents,
    datatype: DataType,
) -> Result<Bytes, ContentsError> {
    if let Some(wrong) = wrong_field(contents, datatype) {
        return Err(ContentsError::Wrong(wrong));
    }
    match datatype {
        DataType::Bool => Ok(contents
            .bool_contents
            .iter()
            .map(|&x| u8::from(x))
            .collect()),
        DataType::Int8 => narrow(&contents.int_contents, i8::to_le_bytes),
        DataType::Int16 => narrow(&contents.int_contents, i16::to_le_bytes),
        DataType::Int32 => Ok(wide(&contents.int_contents, i32::to_le_bytes)),
        DataType::Int64 => Ok(wide(&contents.int64_contents, i64::to_le_bytes)),
        DataType::Uint8 => narrow(&contents.uint_contents, u8::to_le_bytes),
        DataType::Uint16 => narrow(&contents.uint_contents, u16::to_le_bytes),
        DataType::Uint32 => Ok(wide(&contents.uint_contents, u32::to_le_bytes)),
        DataType::Uint64 => Ok(wide(&contents.uint64_contents, u64::to_le_bytes)),
        DataType::Fp32 => Ok(wide(&contents.fp32_contents, f32::to_le_bytes)),
        DataType::Fp64 => Ok(wide(&contents.fp64_contents, f64::to_le_bytes)),
        DataType::Bytes => strings(&contents.bytes_contents),
        // No field is for them, so that none is filled: no elements.
        DataType::Fp16 | DataType::Bf16 => Ok(Bytes::new()),
    }
}

/// The first filled field that is not the datatype's, by the datatype it is for.
fn wrong_field(contents: &InferTensorContents, datatype: DataType) -> Option<&'static str> {
    use DataType::{
        Bool, Bytes, Fp32, Fp64, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
    };
    let InferTensorContents {
        bool_contents,
        int_contents,
        int64_contents,
        uint_contents,
        uint64_contents,
        fp32_contents,
        fp64_contents,
        bytes_contents,
    } = contents;
    let fields: [(bool, &'static str, &[DataType]); 8] = [
        (bool_contents.is_empty(), "BOOL", &[Bool]),
        (int_contents.is_empty(), "INT32", &[Int8, Int16, Int32]),
        (int64_contents.is_empty(), "INT64", &[Int64]),
        (uint_contents.is_empty(), "UINT32", &[Uint8, Uint16, Uint32]),
        (uint64_contents.is_empty(), "UINT64", &[Uint64]),
        (fp32_contents.is_empty(), "FP32", &[Fp32]),
        (fp64_contents.is_empty(), "FP64", &[Fp64]),
        (bytes_contents.is_empty(), "BYTES", &[Bytes]),
    ];
    fields
        .into_iter()
        .find(|(empty, _, fitting)| !empty && !fitting.contains(&datatype))
        .map(|(_, name, _)| name)
}

fn wide<T: Copy, const N: usize>(values: &[T], write: fn(T) -> [u8; N]) -> Bytes {
    let mut data = BytesMut::with_capacity(values.len() * N);
    for &value in values {
        data.put_slice(&write(value));
    }
    data.freeze()
}

/// Triton keeps the low bytes of a value that does not fit; a wrong answer helps nobody, so we refuse.
fn narrow<W, T, const N: usize>(
    values: &[W],
    write: fn(T) -> [u8; N],
) -> Result<Bytes, ContentsError>
where
    W: Copy + Into<i64>,
    T: TryFrom<W>,
{
    let mut data = BytesMut::with_capacity(values.len() * N);
    for &value in values {
        let fitting = T::try_from(value).map_err(|_| ContentsError::Range(value.into()))?;
        data.put_slice(&write(fitting));
    }
    Ok(data.freeze())
}

fn strings(elements: &[Bytes]) -> Result<Bytes, ContentsError> {
    let size = elements.iter().map(|element| element.len() + 4).sum();
    let mut data = BytesMut::with_capacity(size);
    for element in elements {
        let length = u32::try_from(element.len()).map_err(|_| ContentsError::ElementTooLarge)?;
        data.put_u32_le(length);
        data.put_slice(element);
    }
    Ok(data.freeze())
}
