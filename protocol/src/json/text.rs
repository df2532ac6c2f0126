//! Finds, checks and unescapes JSON strings.

use super::JsonError;
use super::error::rapidjson;

/// Returns the run of plain characters from `at` to the next quote or backslash, and the position of its end. The run
/// is valid UTF-8 without control characters.
pub(super) fn run(text: &[u8], at: usize) -> Result<(&str, usize), JsonError> {
    let rest = &text[at..];
    let Some(length) = memchr::memchr2(b'"', b'\\', rest) else {
        return Err(syntax(rapidjson::QUOTE, text.len()));
    };
    let bytes = &rest[..length];
    if let Some(control) = bytes.iter().position(|byte| *byte < 0x20) {
        return Err(syntax(rapidjson::ENCODING, at + control));
    }
    match std::str::from_utf8(bytes) {
        Ok(run) => Ok((run, at + length)),
        Err(error) => Err(syntax(rapidjson::ENCODING, at + error.valid_up_to())),
    }
}

/// Returns the position after the string whose content begins at `at`. The content is not checked.
pub(super) fn end(text: &[u8], mut at: usize) -> Result<usize, JsonError> {
    while let Some(rest) = text.get(at..)
        && let Some(length) = memchr::memchr2(b'"', b'\\', rest)
    {
        if rest[length] == b'"' {
            return Ok(at + length + 1);
        }
        at += length + 2;
    }
    Err(syntax(rapidjson::QUOTE, text.len()))
}

/// Reads the escape whose backslash is at `at`; returns the character and the position after it.
pub(super) fn escape(text: &[u8], at: usize) -> Result<(char, usize), JsonError> {
    let plain = match text.get(at + 1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(text, at),
        Some(_) => return Err(syntax(rapidjson::ESCAPE, at)),
        None => return Err(syntax(rapidjson::QUOTE, text.len())),
    };
    Ok((plain, at + 2))
}

fn unicode(text: &[u8], at: usize) -> Result<(char, usize), JsonError> {
    let unit = hex(text, at + 2, at)?;
    if let Some(character) = char::from_u32(unit) {
        return Ok((character, at + 6));
    }
    // The unit is a surrogate: a high surrogate must be followed by a low one.
    let second = text.get(at + 6..at + 8) == Some(b"\\u");
    if !second || !(0xd800..0xdc00).contains(&unit) {
        return Err(syntax(rapidjson::SURROGATE, at));
    }
    let low = hex(text, at + 8, at)?;
    if !(0xdc00..0xe000).contains(&low) {
        return Err(syntax(rapidjson::SURROGATE, at));
    }
    let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    let character = char::from_u32(code).ok_or_else(|| syntax(rapidjson::SURROGATE, at))?;
    Ok((character, at + 12))
}

fn hex(text: &[u8], at: usize, escape: usize) -> Result<u32, JsonError> {
    let digits = text.get(at..at + 4);
    let mut unit = 0;
    for byte in digits.ok_or_else(|| syntax(rapidjson::HEX, escape))? {
        let digit = char::from(*byte).to_digit(16);
        unit = unit * 16 + digit.ok_or_else(|| syntax(rapidjson::HEX, escape))?;
    }
    Ok(unit)
}

fn syntax(message: &'static str, offset: usize) -> JsonError {
    JsonError::Syntax { message, offset }
}
