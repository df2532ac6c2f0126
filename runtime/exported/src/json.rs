//! JSON with the infinities and NaN that Python writes as bare words, which JSON does not have.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

/// Words that Python's `json.dumps` writes for floats without a JSON form. The sign of an infinity stays in front.
const WORDS: [&str; 2] = ["Infinity", "NaN"];

/// Parses a text of Python's `json.dumps`.
///
/// # Errors
/// The error of the text with its words quoted.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(&quoted(text))
}

/// Returns the text with bare words made strings.
fn quoted(text: &[u8]) -> Cow<'_, [u8]> {
    let mut result = Vec::new();
    let (mut copied, mut at, mut is_inside) = (0, 0, false);
    while at < text.len() {
        match text[at] {
            b'\\' if is_inside => at += 1,
            b'"' => is_inside = !is_inside,
            b'-' | b'I' | b'N' if !is_inside => {
                let sign = usize::from(text[at] == b'-');
                let word = WORDS.iter().find(|word| text[at + sign..].starts_with(word.as_bytes()));
                if let Some(word) = word {
                    let end = at + sign + word.len();
                    result.extend_from_slice(&text[copied..at]);
                    result.extend([b"\"", &text[at..end], b"\""].concat());
                    (copied, at) = (end, end - 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    result.extend_from_slice(&text[copied..]);
    Cow::Owned(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Float;

    #[test]
    fn bare_infinities_are_floats() {
        let floats: Vec<Float> = parse(br#"[Infinity, -Infinity,NaN, 1.5, "-Infinity", -2]"#).unwrap();
        let floats: Vec<f64> = floats.into_iter().map(|float| float.0).collect();
        assert_eq!((floats[0], floats[1], floats[3]), (f64::INFINITY, f64::NEG_INFINITY, 1.5));
        assert!(floats[2].is_nan());
        assert_eq!((floats[4], floats[5]), (f64::NEG_INFINITY, -2.0));
    }

    #[test]
    fn words_inside_of_strings_stay() {
        let text = br#"{"a": "x Infinity \\\" NaN", "b\\": "-Infinity"}"#;
        assert!(matches!(quoted(text), Cow::Borrowed(_)));
        assert_eq!(&*quoted(br#"{"NaN": NaN}"#), br#"{"NaN": "NaN"}"#);
        assert_eq!(&*quoted(b"-"), b"-");
    }
}
