//! JSON as Python writes it. Infinities and NaN are bare words, which JSON does not have. Every digit of a float
//! counts: `serde_json` rounds the last digit, after which the smallest float of 32 bits, with which programs mask
//! attention, is out of the range of such floats. Therefore floats and bare words are made strings before the text is
//! parsed.

use std::borrow::Cow;

use memchr::memchr2;
use serde::de::DeserializeOwned;

/// Words that Python's `json.dumps` writes for floats without a JSON form. The sign of an infinity stays in front.
const WORDS: [&str; 2] = ["Infinity", "NaN"];

/// Parses a text of Python's `json.dumps`.
///
/// # Errors
/// The parser's error. The position in it is that in the text with the quotes that were added.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(&quoted(text))
}

/// Returns the text with floats and bare words made strings.
fn quoted(text: &[u8]) -> Cow<'_, [u8]> {
    let mut result = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while at < text.len() {
        at += match text[at] {
            b'"' => string(&text[at..]),
            byte if !is_part(byte) => 1,
            _ => {
                let length = token(&text[at..]);
                if is_float(&text[at..at + length]) {
                    result.extend_from_slice(&text[copied..at]);
                    result.extend([b"\"", &text[at..at + length], b"\""].concat());
                    copied = at + length;
                }
                length
            }
        };
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    result.extend_from_slice(&text[copied..]);
    Cow::Owned(result)
}

/// Returns the length of the string at the beginning, with its quotes; that of the text if the string does not end.
fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if text[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// Returns the length of the word or number at the beginning; 0 if there is neither.
fn token(text: &[u8]) -> usize {
    text.iter().position(|byte| !is_part(*byte)).unwrap_or(text.len())
}

/// True for a byte of a word or a number.
fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

fn is_float(token: &[u8]) -> bool {
    let unsigned = token.strip_prefix(b"-").unwrap_or(token);
    let is_number = unsigned.first().is_some_and(u8::is_ascii_digit);
    let has_fraction = unsigned.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    WORDS.iter().any(|word| unsigned == word.as_bytes()) || (is_number && has_fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::schema::Float;

    #[test]
    fn bare_infinities_are_floats() {
        let floats: Vec<Float> = parse(br#"[Infinity, -Infinity,NaN, 1.5, "-Infinity", -2]"#).unwrap();
        let floats: Vec<f64> = floats.into_iter().map(|float| float.0).collect();
        assert_eq!((floats[0], floats[1], floats[3]), (f64::INFINITY, f64::NEG_INFINITY, 1.5));
        assert!(floats[2].is_nan());
        assert_eq!((floats[4], floats[5]), (f64::NEG_INFINITY, -2.0));
    }

    #[test]
    fn floats_keep_every_digit() {
        let floats: Vec<Float> = parse(b"[-3.4028234663852886e+38,3.4028234663852886E38, 0.1]").unwrap();
        let floats: Vec<f64> = floats.into_iter().map(|float| float.0).collect();
        assert_eq!(floats, [f64::from(f32::MIN), f64::from(f32::MAX), 0.1]);
        assert!(parse::<Vec<Float>>(b"[1.5x]").is_err());
    }

    #[test]
    fn words_inside_of_strings_stay() {
        let text = br#"{"a": "x Infinity \\\" NaN", "b\\": "-Infinity"}"#;
        assert!(matches!(quoted(text), Cow::Borrowed(_)));
        assert_eq!(&*quoted(br#"{"NaN": NaN}"#), br#"{"NaN": "NaN"}"#);
        assert_eq!(&*quoted(b"-"), b"-");
        for unfinished in [&br#"{"a": "1.5"#[..], br#""1.5\"#, br#""1.5\""#, b"\""] {
            assert!(matches!(quoted(unfinished), Cow::Borrowed(_)));
        }
    }
}
