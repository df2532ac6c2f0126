//! Decodes base64 in JSON strings.

use std::borrow::Cow;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};

/// Decodes base64 with or without line breaks. Many encoders put a line break after every 72 or 76 characters and at
/// the end, among them that of Triton's C++ client, the program `base64` and Python's `encodebytes`.
///
/// # Errors
/// Fails if the text without its line breaks is not base64; offsets in the error do not count the line breaks.
pub(super) fn decode(text: Cow<'_, str>) -> Result<Vec<u8>, DecodeError> {
    let is_break = |letter: char| letter.is_ascii_whitespace();
    if !text.contains(is_break) {
        return STANDARD.decode(text.as_bytes());
    }
    // In JSON, line breaks are escapes, so a string that has them is already an owned copy.
    let mut unbroken = text.into_owned();
    unbroken.retain(|letter| !is_break(letter));
    STANDARD.decode(unbroken)
}
