//! Refuses ambiguous requests, which proxies and servers may interpret differently (RFC 9112, 3.2 and 6.1).

use http::header::{HOST, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, header};

use crate::header_names;

/// Error of a header that can be read in several ways.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("header {name}: {value:?} is not {expected}")]
pub struct Ambiguous {
    /// Name of the header, in lower case.
    pub name: &'static str,
    /// Values of the header as received, joined by commas.
    pub value: String,
    /// The only value or form that is accepted.
    pub expected: &'static str,
}

/// Header with the length of the JSON in a body of the V2 protocol; tensor data follows the JSON.
const JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// Checks that a request names one host and has one framing.
///
/// # Errors
/// [`Ambiguous`] if the request can be read in several ways.
pub fn check(headers: &HeaderMap) -> Result<(), Ambiguous> {
    // Fast path: almost all requests repeat no header and have no transfer coding.
    if !header_names::repeat(headers) && !header_names::has(headers, &TRANSFER_ENCODING) {
        return Ok(());
    }
    if headers.get_all(HOST).iter().nth(1).is_some() {
        return Err(ambiguous(headers, "host", &HOST, "one host"));
    }
    // hyper only decodes `chunked`, so bytes in another coding would be taken for the body itself.
    if !is_chunked_alone(headers) {
        let name = "transfer-encoding";
        return Err(ambiguous(headers, name, &TRANSFER_ENCODING, "chunked alone"));
    }
    if differs(headers.get_all(JSON_LENGTH)) {
        let name = "inference-header-content-length";
        return Err(ambiguous(headers, name, &JSON_LENGTH, "one length"));
    }
    Ok(())
}

fn is_chunked_alone(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    codings.next().is_none_or(is_chunked) && codings.next().is_none()
}

fn differs(values: header::GetAll<'_, HeaderValue>) -> bool {
    let mut values = values.iter();
    let first = values.next();
    values.any(|value| Some(value) != first)
}

fn ambiguous(headers: &HeaderMap, name: &'static str, header: &HeaderName, expected: &'static str) -> Ambiguous {
    let values: Vec<_> =
        headers.get_all(header).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    Ambiguous { name, value: values.join(", "), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(lines: &[(&'static str, &'static str)]) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        check(&headers).map_err(|ambiguous| ambiguous.to_string())
    }

    #[test]
    fn one_host_and_one_framing_are_accepted() {
        assert_eq!(checked(&[]), Ok(()));
        assert_eq!(checked(&[("host", "a.b")]), Ok(()));
        assert_eq!(checked(&[("transfer-encoding", "Chunked")]), Ok(()));
        let length = ("inference-header-content-length", "7");
        assert_eq!(checked(&[length, length]), Ok(()));
    }

    #[test]
    fn several_hosts_or_framings_are_ambiguous() {
        let chunked = ("transfer-encoding", "chunked");
        for lines in [
            &[("transfer-encoding", "gzip, chunked")][..],
            &[("transfer-encoding", "chunked, chunked")],
            &[chunked, chunked],
            &[("inference-header-content-length", "7"), ("inference-header-content-length", "0")],
        ] {
            assert!(checked(lines).is_err(), "{lines:?}");
        }
        let hosts = checked(&[("host", "a.b"), ("host", "c.d")]);
        let expected = "header host: \"a.b, c.d\" is not one host";
        assert_eq!(hosts, Err(expected.to_owned()));
    }
}
