//! Conversion between V2 datatypes and libtorch's element types.

use half::{bf16, f16};
use weir_protocol::DataType;

/// `c10::ScalarType` of each datatype with elements of a fixed size
/// (`c10/core/ScalarType.h`; the numbers are also in every saved model, so they do not change).
const TYPES: [(DataType, i32); 13] = [
    (DataType::Uint8, 0),
    (DataType::Int8, 1),
    (DataType::Int16, 2),
    (DataType::Int32, 3),
    (DataType::Int64, 4),
    (DataType::Fp16, 5),
    (DataType::Fp32, 6),
    (DataType::Fp64, 7),
    (DataType::Bool, 11),
    (DataType::Bf16, 15),
    (DataType::Uint16, 27),
    (DataType::Uint32, 28),
    (DataType::Uint64, 29),
];

/// Returns the libtorch element type of a datatype; `None` for BYTES.
pub(crate) fn element_type(datatype: DataType) -> Option<i32> {
    TYPES.iter().find(|(candidate, _)| *candidate == datatype).map(|(_, element)| *element)
}

/// Returns the datatype of a libtorch element type; `None` for complex, quantised and 8-bit float types.
pub(crate) fn datatype(element_type: i32) -> Option<DataType> {
    TYPES.iter().find(|(_, element)| *element == element_type).map(|(datatype, _)| *datatype)
}

pub(crate) fn is_float(datatype: DataType) -> bool {
    matches!(datatype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64)
}

/// Returns a datatype's name in model configurations, such as `TYPE_FP32`.
pub(crate) fn config_name(datatype: DataType) -> String {
    if datatype == DataType::Bytes {
        return "TYPE_STRING".to_owned();
    }
    format!("TYPE_{datatype}")
}

/// Encodes one element: `value` is cast to the datatype, little-endian. Returns no bytes for BYTES.
pub(crate) fn encode(datatype: DataType, value: f64) -> Vec<u8> {
    match datatype {
        DataType::Bool => vec![u8::from(value != 0.0)],
        DataType::Uint8 => (value as u8).to_le_bytes().to_vec(),
        DataType::Uint16 => (value as u16).to_le_bytes().to_vec(),
        DataType::Uint32 => (value as u32).to_le_bytes().to_vec(),
        DataType::Uint64 => (value as u64).to_le_bytes().to_vec(),
        DataType::Int8 => (value as i8).to_le_bytes().to_vec(),
        DataType::Int16 => (value as i16).to_le_bytes().to_vec(),
        DataType::Int32 => (value as i32).to_le_bytes().to_vec(),
        DataType::Int64 => (value as i64).to_le_bytes().to_vec(),
        DataType::Fp16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DataType::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        DataType::Fp32 => (value as f32).to_le_bytes().to_vec(),
        DataType::Fp64 => value.to_le_bytes().to_vec(),
        DataType::Bytes => Vec::new(),
    }
}

/// Decodes elements as numbers, rounded if an `f64` cannot hold them. Returns no elements for BYTES.
pub(crate) fn decode(datatype: DataType, data: &[u8]) -> Vec<f64> {
    let size = datatype.size().unwrap_or(usize::MAX);
    data.chunks_exact(size)
        .map(|bytes| {
            let mut wide = [0; 8];
            wide[..size].copy_from_slice(bytes);
            decode_one(datatype, wide)
        })
        .collect()
}

/// Decodes one element from its little-endian bytes, padded with zeros.
fn decode_one(datatype: DataType, bytes: [u8; 8]) -> f64 {
    let bits = u64::from_le_bytes(bytes);
    match datatype {
        DataType::Bool | DataType::Uint8 | DataType::Uint16 | DataType::Uint32 | DataType::Uint64 | DataType::Bytes => {
            bits as f64
        }
        DataType::Int8 => f64::from(bits as i8),
        DataType::Int16 => f64::from(bits as i16),
        DataType::Int32 => f64::from(bits as i32),
        DataType::Int64 => bits as i64 as f64,
        DataType::Fp16 => f16::from_bits(bits as u16).to_f64(),
        DataType::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        DataType::Fp32 => f64::from(f32::from_bits(bits as u32)),
        DataType::Fp64 => f64::from_bits(bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datatype_of_fixed_size_has_an_element_type_and_an_encoding() {
        for expected in DataType::ALL {
            let found = element_type(expected);
            assert_eq!(found.is_some(), expected.size().is_some(), "{expected}");
            assert_eq!(found.and_then(datatype).is_some(), found.is_some());
            assert_eq!(encode(expected, 1.0).len(), expected.size().unwrap_or(0));
        }
    }

    #[test]
    fn encoded_elements_decode_to_the_same_numbers() {
        for datatype in DataType::ALL.into_iter().filter(|datatype| datatype.size().is_some()) {
            let bytes = [encode(datatype, 1.0), encode(datatype, 0.0)].concat();
            assert_eq!(decode(datatype, &bytes), [1.0, 0.0], "{datatype}");
        }
        assert_eq!(decode(DataType::Int8, &encode(DataType::Int8, -5.0)), [-5.0]);
    }

    #[test]
    fn padding_is_cast() {
        assert_eq!(encode(DataType::Int64, -100.0), (-100_i64).to_le_bytes());
        assert_eq!(encode(DataType::Uint8, -1.0), [0]);
        assert_eq!(encode(DataType::Fp16, 1.0), [0x00, 0x3c]);
    }
}
