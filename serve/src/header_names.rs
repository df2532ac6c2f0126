//! Fast lookups of a message's headers. A message has few headers, so comparing all names costs less than hashing one.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// Returns true if the message has this header.
#[must_use]
pub fn has(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.keys().any(|other| other == name)
}

/// Returns true if the message has one of these headers.
#[must_use]
pub fn has_any(headers: &HeaderMap, names: &[HeaderName]) -> bool {
    headers.keys().any(|name| names.contains(name))
}

/// Returns the first value of a header.
#[must_use]
pub fn first<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    // Most lookups miss, and a miss computes no hash.
    if has(headers, name) { headers.get(name) } else { None }
}

/// Returns true if any header occurs more than once.
#[must_use]
pub fn repeat(headers: &HeaderMap) -> bool {
    headers.len() != headers.keys_len()
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, HOST, TE};

    use super::*;

    fn headers(lines: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn lookups_agree_with_the_header_map() {
        let own = HeaderName::from_static("weir-own");
        let headers = headers(&[(HOST, "a"), (own.clone(), "1"), (own.clone(), "2")]);
        for name in [HOST, own.clone(), TE, HeaderName::from_static("weir-other")] {
            assert_eq!(has(&headers, &name), headers.contains_key(&name), "{name}");
            assert_eq!(first(&headers, &name), headers.get(&name), "{name}");
        }
        assert!(has_any(&headers, &[TE, own]));
        assert!(!has_any(&headers, &[TE, ACCEPT]));
    }

    #[test]
    fn a_header_that_comes_twice_repeats() {
        assert!(!repeat(&headers(&[])));
        assert!(!repeat(&headers(&[(HOST, "a"), (TE, "b")])));
        assert!(repeat(&headers(&[(HOST, "a"), (TE, "b"), (HOST, "a")])));
    }
}
