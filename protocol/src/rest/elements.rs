//! Converts tensor elements from JSON text to bytes and back.

use half::{bf16, f16};

use crate::DataType;
use crate::json::{self, JsonError, Number, Reader};

/// Reads one scalar and appends it to `out`, little-endian. With a constant datatype, the inlined function is as fast
/// as a reader written for that type.
#[inline(always)]
pub(super) fn read(reader: &mut Reader<'_>, datatype: DataType, out: &mut Vec<u8>) -> Result<(), JsonError> {
    match datatype {
        DataType::Bool => out.push(u8::from(reader.boolean()?)),
        DataType::Uint8 => out.extend_from_slice(&reader.narrow_unsigned::<u8>()?.to_le_bytes()),
        DataType::Uint16 => out.extend_from_slice(&reader.narrow_unsigned::<u16>()?.to_le_bytes()),
        DataType::Uint32 => out.extend_from_slice(&reader.narrow_unsigned::<u32>()?.to_le_bytes()),
        DataType::Uint64 => out.extend_from_slice(&reader.unsigned()?.to_le_bytes()),
        DataType::Int8 => out.extend_from_slice(&reader.narrow_signed::<i8>()?.to_le_bytes()),
        DataType::Int16 => out.extend_from_slice(&reader.narrow_signed::<i16>()?.to_le_bytes()),
        DataType::Int32 => out.extend_from_slice(&reader.narrow_signed::<i32>()?.to_le_bytes()),
        DataType::Int64 => out.extend_from_slice(&reader.signed()?.to_le_bytes()),
        DataType::Fp16 => out.extend_from_slice(&reader.ranged(f16_from)?.to_le_bytes()),
        DataType::Bf16 => out.extend_from_slice(&reader.ranged(bf16_from)?.to_le_bytes()),
        DataType::Fp32 => out.extend_from_slice(&reader.ranged(Number::float)?.to_le_bytes()),
        DataType::Fp64 => out.extend_from_slice(&reader.ranged(Number::double)?.to_le_bytes()),
        DataType::Bytes => string(reader, out)?,
    }
    Ok(())
}

/// Appends a BYTES element with its length prefix; `None` if the length does not fit the prefix.
pub(super) fn push_string(out: &mut Vec<u8>, element: &[u8]) -> Option<()> {
    let length = u32::try_from(element.len()).ok()?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(element);
    Some(())
}

fn f16_from(number: &Number<'_>) -> Option<f16> {
    let value = number.float()?;
    let rounded = f16::from_f32(value);
    (rounded.is_infinite() == value.is_infinite()).then_some(rounded)
}

fn bf16_from(number: &Number<'_>) -> Option<bf16> {
    let value = number.float()?;
    let rounded = bf16::from_f32(value);
    (rounded.is_infinite() == value.is_infinite()).then_some(rounded)
}

/// Reads a string and appends it. The length prefix is reserved first and filled in afterwards.
fn string(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    reader.append_string(out)?;
    let length = out.len() - start - 4;
    let length = u32::try_from(length).map_err(|_| JsonError::OutOfRange(0..0))?;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Writes all elements of a fixed-size datatype, separated by commas.
pub(super) fn write_all(out: &mut Vec<u8>, datatype: DataType, data: &[u8]) {
    match datatype {
        DataType::Bool => each(out, data, u8::from_le_bytes, boolean),
        DataType::Uint8 => each(out, data, u8::from_le_bytes, json::integer),
        DataType::Uint16 => each(out, data, u16::from_le_bytes, json::integer),
        DataType::Uint32 => each(out, data, u32::from_le_bytes, json::integer),
        DataType::Uint64 => each(out, data, u64::from_le_bytes, json::integer),
        DataType::Int8 => each(out, data, i8::from_le_bytes, json::integer),
        DataType::Int16 => each(out, data, i16::from_le_bytes, json::integer),
        DataType::Int32 => each(out, data, i32::from_le_bytes, json::integer),
        DataType::Int64 => each(out, data, i64::from_le_bytes, json::integer),
        DataType::Fp16 => each(out, data, |le| f16::from_le_bytes(le).to_f32(), json::float),
        DataType::Bf16 => each(out, data, |le| bf16::from_le_bytes(le).to_f32(), json::float),
        DataType::Fp32 => each(out, data, f32::from_le_bytes, json::float),
        DataType::Fp64 => each(out, data, f64::from_le_bytes, json::double),
        // Strings have no fixed size; callers write them from `Tensor::strings`.
        DataType::Bytes => {}
    }
}

#[inline(always)]
fn each<const N: usize, T>(
    out: &mut Vec<u8>,
    data: &[u8],
    from_bytes: impl Fn([u8; N]) -> T,
    write: impl Fn(&mut Vec<u8>, T),
) {
    // Reserves eight characters per element, the usual length of a number and its comma. Longer elements make the
    // buffer grow once or twice.
    out.reserve(data.len() / N * 8);
    let (elements, _) = data.as_chunks::<N>();
    for (i, element) in elements.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, from_bytes(*element));
    }
}

fn boolean(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(if byte == 0 { b"false" } else { b"true" });
}
