//! Finding the model's name in a message without decoding the rest.
//!
//! ```text
//!   first bytes of a message ──► key, value │ key, value │ … ──► the name, or why there is none yet
//! ```

/// How many bytes of a message are looked at. Names come first in every message that has one, and
/// a directory's name is at most 255 bytes; what is longer than this is not worth waiting for.
pub const PEEK_LIMIT: usize = 4096;

/// Where an rpc's first message holds the model's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameField(u64);

/// What the first bytes of a message say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek<'a> {
    /// The model's name.
    Found(&'a str),
    /// Whole fields only, and none is the name. If this was all of the message, the name is empty.
    Absent,
    /// The bytes, or the limit, end within a field.
    Cut,
    /// This is not protobuf, or the name is not text.
    Malformed,
}

impl NameField {
    /// The field of an rpc of `GRPCInferenceService`; `None` where no message names a model.
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

/// Looks for the model's name in the first [`PEEK_LIMIT`] bytes of a message: uncompressed, and
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
            Err(Stop::Cut) => return Peek::Cut,
            Err(Stop::Malformed) => return Peek::Malformed,
        }
    }
    Peek::Absent
}

struct Field<'a> {
    number: u64,
    /// The bytes of a length-delimited field.
    text: Option<&'a [u8]>,
}

enum Stop {
    Cut,
    Malformed,
}

fn next_field<'a>(rest: &mut &'a [u8]) -> Result<Field<'a>, Stop> {
    let key = varint(rest)?;
    let number = key >> 3;
    if number == 0 {
        return Err(Stop::Malformed);
    }
    let text = match key & 7 {
        0 => varint(rest).map(|_| None)?,
        1 => take(rest, 8).map(|_| None)?,
        2 => {
            let length = varint(rest)?;
            Some(take(rest, length)?)
        }
        5 => take(rest, 4).map(|_| None)?,
        // Groups are gone since proto3, and 6 and 7 never were.
        _ => return Err(Stop::Malformed),
    };
    Ok(Field { number, text })
}

fn take<'a>(rest: &mut &'a [u8], length: u64) -> Result<&'a [u8], Stop> {
    let length = usize::try_from(length).map_err(|_| Stop::Malformed)?;
    let (taken, tail) = rest.split_at_checked(length).ok_or(Stop::Cut)?;
    *rest = tail;
    Ok(taken)
}

/// At most ten bytes of seven bits, lowest first.
fn varint(rest: &mut &[u8]) -> Result<u64, Stop> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or(Stop::Cut)?;
        *rest = tail;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Stop::Malformed)
}
