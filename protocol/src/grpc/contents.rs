//! Converts typed tensor contents to raw bytes.

use bytes::{BufMut, Bytes, BytesMut};

use super::proto::InferTensorContents;
use crate::DataType;

/// Error of typed contents that do not fit the input's datatype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ContentsError {
    /// A field of another datatype is filled; the value is that datatype's name.
    WrongField(&'static str),
    /// The datatype cannot hold this value.
    OutOfRange(i64),
    /// A BYTES element is too long for a 32-bit length prefix.
    ElementTooLarge,
}

/// Encodes the elements in row-major order, little-endian. The number of elements is compared with the shape later.
pub(super) fn encode(contents: &InferTensorContents, datatype: DataType) -> Result<Bytes, ContentsError> {
    if let Some(wrong) = wrong_field(contents, datatype) {
        return Err(ContentsError::WrongField(wrong));
    }
    match datatype {
        DataType::Bool => Ok(contents.bool_contents.iter().map(|&x| u8::from(x)).collect()),
        DataType::Int8 => encode_narrowed(&contents.int_contents, i8::to_le_bytes),
        DataType::Int16 => encode_narrowed(&contents.int_contents, i16::to_le_bytes),
        DataType::Int32 => Ok(encode_all(&contents.int_contents, i32::to_le_bytes)),
        DataType::Int64 => Ok(encode_all(&contents.int64_contents, i64::to_le_bytes)),
        DataType::Uint8 => encode_narrowed(&contents.uint_contents, u8::to_le_bytes),
        DataType::Uint16 => encode_narrowed(&contents.uint_contents, u16::to_le_bytes),
        DataType::Uint32 => Ok(encode_all(&contents.uint_contents, u32::to_le_bytes)),
        DataType::Uint64 => Ok(encode_all(&contents.uint64_contents, u64::to_le_bytes)),
        DataType::Fp32 => Ok(encode_all(&contents.fp32_contents, f32::to_le_bytes)),
        DataType::Fp64 => Ok(encode_all(&contents.fp64_contents, f64::to_le_bytes)),
        DataType::Bytes => encode_strings(&contents.bytes_contents),
        // V2 defines no field for these datatypes, so there are no elements.
        DataType::Fp16 | DataType::Bf16 => Ok(Bytes::new()),
    }
}

/// Returns the datatype of the first filled field that belongs to another datatype.
fn wrong_field(contents: &InferTensorContents, datatype: DataType) -> Option<&'static str> {
    use DataType::{Bool, Bytes, Fp32, Fp64, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64};
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
    fields.into_iter().find(|(empty, _, fitting)| !empty && !fitting.contains(&datatype)).map(|(_, name, _)| name)
}

fn encode_all<T: Copy, const N: usize>(values: &[T], write: fn(T) -> [u8; N]) -> Bytes {
    let mut data = BytesMut::with_capacity(values.len() * N);
    for &value in values {
        data.put_slice(&write(value));
    }
    data.freeze()
}

/// Encodes values in a narrower type. A value that does not fit is an error; Triton keeps its low bytes and computes
/// with a wrong number.
fn encode_narrowed<W, T, const N: usize>(values: &[W], write: fn(T) -> [u8; N]) -> Result<Bytes, ContentsError>
where
    W: Copy + Into<i64>,
    T: TryFrom<W>,
{
    let mut data = BytesMut::with_capacity(values.len() * N);
    for &value in values {
        let fitting = T::try_from(value).map_err(|_| ContentsError::OutOfRange(value.into()))?;
        data.put_slice(&write(fitting));
    }
    Ok(data.freeze())
}

fn encode_strings(elements: &[Bytes]) -> Result<Bytes, ContentsError> {
    let size = elements.iter().map(|element| element.len() + 4).sum();
    let mut data = BytesMut::with_capacity(size);
    for element in elements {
        let length = u32::try_from(element.len()).map_err(|_| ContentsError::ElementTooLarge)?;
        data.put_u32_le(length);
        data.put_slice(element);
    }
    Ok(data.freeze())
}
