//! Reads the model's name from an encoded message without decoding the rest.
//!
//! ```text
//!   first bytes of a message ──► key, value │ key, value │ … ──► the last name
//! ```

use bytes::Buf;

/// Maximum number of bytes of a compressed message that are decompressed to find the name, and of the name itself. Most
/// encoders write names first, and the name of a directory has at most 255 bytes.
pub const PEEK_LIMIT: usize = 4096;

/// Maximum number of fields that are passed in search of the name: more than a valid request may have.
const MOST_FIELDS: usize = 1 << 15;

/// Number of the field that contains the model's name in the first message of an RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameField(u64);

impl NameField {
    /// Field of the model's version, in `ModelInfer`.
    pub const VERSION: Self = Self(2);

    /// Returns the field for an RPC of `GRPCInferenceService`; `None` if its messages name no model.
    #[must_use]
    pub fn of(rpc: &str) -> Option<Self> {
        match rpc {
            "ModelReady" | "ModelMetadata" | "ModelInfer" | "ModelStreamInfer" | "ModelConfig" | "ModelStatistics" => {
                Some(Self(1))
            }
            "RepositoryModelLoad" | "RepositoryModelUnload" | "TraceSetting" => Some(Self(2)),
            _ => None,
        }
    }
}

/// Searches a message for the model's name, past fields of any length. The message must be uncompressed and without
/// gRPC's five-byte prefix. Protobuf leaves the order of fields to the encoder, and Go's order is random for messages
/// made from descriptors, as `k6` and gRPC consoles make them. If the field occurs twice, the last one counts, as for
/// servers. The search ends where the message is cut off or is no protobuf. Returns `None` if there is no name, or if it
/// is longer than [`PEEK_LIMIT`] or not UTF-8.
#[must_use]
pub fn find_model_name(field: NameField, mut message: impl Buf) -> Option<String> {
    let mut found = None;
    for _ in 0..MOST_FIELDS {
        let Some((number, length)) = next_value(&mut message) else {
            break;
        };
        if number == field.0 {
            found = read_text(&mut message, length);
        } else {
            message.advance(length);
        }
    }
    found
}

/// Reads the number of the next field and the length of its value, which is still to be read. Returns `None` at the end
/// of the message and if the message is cut off.
fn next_value(message: &mut impl Buf) -> Option<(u64, usize)> {
    let key = read_varint(message)?;
    let length = match key & 7 {
        0 => read_varint(message).map(|_| 0)?,
        1 => 8,
        2 => read_varint(message)?,
        5 => 4,
        _ => return None,
    };
    let length = usize::try_from(length).ok()?;
    (length <= message.remaining()).then_some((key >> 3, length))
}

fn read_varint(message: &mut impl Buf) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let byte = message.try_get_u8().ok()?;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn read_text(message: &mut impl Buf, length: usize) -> Option<String> {
    if length > PEEK_LIMIT {
        message.advance(length);
        return None;
    }
    let text = message.copy_to_bytes(length);
    String::from_utf8(text.to_vec()).ok()
}
