//! The binary extension: splits a body into its JSON and the blobs that follow.

use bytes::Bytes;

use super::{Limits, RestError};

/// Parses the header [`HEADER_LENGTH`](super::HEADER_LENGTH); 0 means a raw body.
///
/// # Errors
/// Fails if the value is not a number, does not fit 32 bits, is negative, or exceeds the body's `body_len` bytes.
pub fn parse_header_length(value: &str, body_len: usize) -> Result<usize, RestError> {
    let text = value.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RestError::HeaderLength { value: value.to_owned() });
    }
    let Ok(length) = text.parse::<i32>() else {
        return Err(RestError::HeaderLengthRange { value: value.to_owned() });
    };
    match usize::try_from(length) {
        Ok(length) if length <= body_len => Ok(length),
        Ok(_) | Err(_) => Err(RestError::HeaderLengthBody { body: body_len, value: value.to_owned() }),
    }
}

/// Splits a body into its JSON and its blobs. Without a header length, the whole body is JSON.
pub(super) fn split(
    mut body: Bytes,
    header_length: Option<usize>,
    limits: &Limits,
) -> Result<(Bytes, Blobs), RestError> {
    let length = header_length.unwrap_or(body.len());
    if length > limits.max_json {
        return Err(RestError::JsonTooLarge { size: length, limit: limits.max_json });
    }
    if let Some(missing) = length.checked_sub(body.len())
        && missing > 0
    {
        return Err(RestError::ShortJson { missing });
    }
    let json = body.split_to(length);
    Ok((json, Blobs { rest: body }))
}

/// Bytes after the JSON, taken in the order of the inputs without copying.
#[derive(Debug)]
pub(super) struct Blobs {
    rest: Bytes,
}

impl Blobs {
    /// Takes the next `size` bytes, for `input` of `model`.
    pub(super) fn take(&mut self, size: u64, input: &str, model: &str) -> Result<Bytes, RestError> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > self.rest.len() {
            return Err(RestError::ShortInput {
                input: input.to_owned(),
                missing: size - self.rest.len(),
                model: model.to_owned(),
            });
        }
        Ok(self.rest.split_to(size))
    }

    /// Checks that no bytes are left over.
    pub(super) fn finish(self, model: &str) -> Result<(), RestError> {
        if self.rest.is_empty() { Ok(()) } else { Err(RestError::SurplusInput { model: model.to_owned() }) }
    }
}
