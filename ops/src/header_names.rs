//! Which headers a message has. A message has few: reading the names of all costs less than the hash of one.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// True if a message has this header.
#[must_use]
pub fn has(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.keys().any(|other| other == name)
}

/// True if a message has one of these headers.
#[must_use]
pub fn has_any(headers: &HeaderMap, names: &[HeaderName]) -> bool {
    headers.keys().any(|name| names.contains(name))
}

/// A header's first value.
#[must_use]
pub fn first<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    // Most of the headers that are looked up are not there, and then none is hashed.
    if has(headers, name) { headers.get(name) } else { None }
}

/// True if a header comes more than once, whichever it is.
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
    fn names_are_found_as_a_lookup_finds_them() {
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
