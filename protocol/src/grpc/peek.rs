//! Reads the model's name from the first bytes of a message, without decoding the rest.
//!
//! ```text
//!   first bytes of a message ──► key, value │ key, value │ … ──► the name, or why there is none
//! ```

/// Limit on the bytes of a message that are examined. Names come first in every message that has one,
/// and a directory's name is at most 255 bytes; a longer prefix is not worth waiting for.
pub const PEEK_LIMIT: usize = 4096;

/// Number of the field that holds the model's name in an rpc's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameField(u64);

/// The result of [`peek_model_name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek<'a> {
    /// Name of the model, complete.
    Found(&'a str),
    /// Whole fields only, none of them the name. If this was the whole message, the name is empty.
    Absent,
    /// A field that the end of the bytes, or the limit, truncates.
    Truncated,
    /// Not protobuf, or a name that is not UTF-8.
    Malformed,
}

impl NameField {
    /// Field with the version of the model, in `ModelInfer`.
    pub const VERSION: Self = Self(2);

    /// Returns the field for an rpc of `GRPCInferenceService`; `None` where no message names a model.
    #[must_use]
    pub fn of(rpc: &str) -> Option<Self> {
        match rpc {
            "ModelReady" | "ModelMetadata" | "ModelInfer" | "ModelStreamInfer" | "ModelConfig"
            | "ModelStatistics" => Some(Self(1)),
            "RepositoryModelLoad" | "RepositoryModelUnload" | "TraceSetting" => Some(Self(2)),
            _ => None,
        }
    }
}

/// Searches for the model's name in the first [`PEEK_LIMIT`] bytes of a message: uncompressed, and
/// without gRPC's five-byte prefix.
#[must_use]
pub fn peek_model_name(field: NameField, prefix: &[u8]) -> Peek<'_> {
    let mut rest = &prefix[..prefix.len().min(PEEK_LIMIT)];
    while !rest.is_empty() {
        match next_field(&mut rest) {
            Ok(Field { number, text }) if number == field.0 => {
                return match text.map(str::from_utf8) {
                    Some(Ok(name)) => Peek::Found(name),
                    Some(Err(_)) | None => Peek::Malformed,
                };
            }
            Ok(_) => {}
            Err(FieldError::Truncated) => return Peek::Truncated,
            Err(FieldError::Malformed) => return Peek::Malformed,
        }
    }
    Peek::Absent
}

struct Field<'a> {
    number: u64,
    /// The bytes of a length-delimited field.
    text: Option<&'a [u8]>,
}

enum FieldError {
    Truncated,
    Malformed,
}

fn next_field<'a>(rest: &mut &'a [u8]) -> Result<Field<'a>, FieldError> {
    let key = varint(rest)?;
    let number = key >> 3;
    if number == 0 {
        return Err(FieldError::Malformed);
    }
    let text = match key & 7 {
        0 => varint(rest).map(|_| None)?,
        1 => take(rest, 8).map(|_| None)?,
        2 => {
            let length = varint(rest)?;
            Some(take(rest, length)?)
        }
        5 => take(rest, 4).map(|_| None)?,
        // 3 and 4 are groups, which proto3 dropped; 6 and 7 are undefined.
        _ => return Err(FieldError::Malformed),
    };
    Ok(Field { number, text })
}

fn take<'a>(rest: &mut &'a [u8], length: u64) -> Result<&'a [u8], FieldError> {
    let length = usize::try_from(length).map_err(|_| FieldError::Malformed)?;
    let (taken, tail) = rest.split_at_checked(length).ok_or(FieldError::Truncated)?;
    *rest = tail;
    Ok(taken)
}

/// Reads at most ten bytes of seven bits each, lowest first.
fn varint(rest: &mut &[u8]) -> Result<u64, FieldError> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or(FieldError::Truncated)?;
        *rest = tail;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(FieldError::Malformed)
}
