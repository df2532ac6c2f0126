//! Base64 in JSON strings.

use std::borrow::Cow;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};

/// Decodes base64 with or without line breaks: many encoders put one after each 72 or 76 characters and at the end,
/// that of Triton's C++ client, the program `base64` and Python's `encodebytes` among them.
///
/// # Errors
/// What is no base64 otherwise; offsets are those without the line breaks.
pub(super) fn decode(text: Cow<'_, str>) -> Result<Vec<u8>, DecodeError> {
    let is_break = |letter: char| letter.is_ascii_whitespace();
    if !text.contains(is_break) {
        return STANDARD.decode(text.as_bytes());
    }
    // A string with line breaks has escapes, and so is a copy already.
    let mut unbroken = text.into_owned();
    unbroken.retain(|letter| !is_break(letter));
    STANDARD.decode(unbroken)
}
