//! Interprets the head of a response.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderName};

/// The parts of a response that a download needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Offset of the first byte of a partial response; `None` without a valid `Content-Range`.
    pub(crate) start: Option<u64>,
    /// Offset after the last byte of the body; `None` if the server does not state it.
    pub(crate) end: Option<u64>,
    /// Size of the whole file in bytes; `None` if the server does not state it.
    pub(crate) total: Option<u64>,
    /// Strong entity tag, otherwise `Last-Modified`, for the header `If-Range`; `None` if the server sent neither.
    pub(crate) validator: Option<String>,
}

impl Head {
    pub(crate) fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| headers.get(name)?.to_str().ok();
        let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let range = text(header::CONTENT_RANGE).and_then(content_range);
        let (start, end, total) = match range {
            Some((start, end, total)) => (Some(start), Some(end), total),
            None => (None, length, length),
        };
        // A weak entity tag does not guarantee equal bytes.
        let tag = text(header::ETAG).filter(|tag| !tag.starts_with("W/"));
        let validator = tag.or_else(|| text(header::LAST_MODIFIED));
        Self { status: status.as_u16(), start, end, total, validator: validator.map(str::to_owned) }
    }
}

/// Returns true if a request with this status may succeed when it is repeated.
pub(crate) fn may_succeed_later(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

/// Returns true if the response to a range says that the file is empty: 416 with `bytes */0`.
pub(crate) fn is_empty_file(status: StatusCode, headers: &HeaderMap) -> bool {
    let range = headers.get(header::CONTENT_RANGE).and_then(|range| range.to_str().ok());
    status == StatusCode::RANGE_NOT_SATISFIABLE && range == Some("bytes */0")
}

/// Returns the delay that a server asks for by `Retry-After`, in seconds or as a date; `None` without one. `now` is in
/// seconds since 1970.
pub(crate) fn retry_after(headers: &HeaderMap, now: u64) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp().as_second();
    Some(Duration::from_secs(u64::try_from(date).ok()?.saturating_sub(now)))
}

/// Parses `bytes START-LAST/TOTAL`, in which the total may be `*`, into start, end and total.
fn content_range(value: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (start, last) = range.split_once('-')?;
    Some((start.parse().ok()?, last.parse::<u64>().ok()?.checked_add(1)?, total.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, 10, Some(10))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, 10, None)));
        assert_eq!(content_range("bytes */10"), None);
        assert_eq!(content_range("items 5-9/10"), None);
        assert_eq!(content_range("bytes 5-18446744073709551615/10"), None);
    }

    #[test]
    fn a_delay_is_a_number_of_seconds_or_a_date() {
        let after = |value: &str, now| {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, value.parse().unwrap())]);
            retry_after(&headers, now)
        };
        assert_eq!(after("120", 0), Some(Duration::from_secs(120)));
        assert_eq!(after("Thu, 01 Jan 1970 00:01:00 GMT", 45), Some(Duration::from_secs(15)));
        assert_eq!(after("Thu, 01 Jan 1970 00:01:00 GMT", 75), Some(Duration::ZERO));
        assert_eq!(after("soon", 0), None);
        assert_eq!(retry_after(&HeaderMap::new(), 0), None);
    }

    #[test]
    fn weak_entity_tags_are_no_validators() {
        let head = |tag: &str| {
            let headers = [(header::ETAG, tag), (header::LAST_MODIFIED, "yesterday"), (header::CONTENT_LENGTH, "7")];
            let headers = headers.map(|(name, value)| (name, value.parse().unwrap()));
            Head::of(StatusCode::OK, &HeaderMap::from_iter(headers))
        };
        assert_eq!(head("\"1\"").validator.unwrap(), "\"1\"");
        assert_eq!(head("W/\"1\"").validator.unwrap(), "yesterday");
        assert_eq!((head("x").start, head("x").end, head("x").total), (None, Some(7), Some(7)));
    }

    #[test]
    fn refusals_are_distinguished_from_failures() {
        for status in [408, 425, 429, 500, 503] {
            assert!(may_succeed_later(status), "{status}");
        }
        for status in [200, 206, 304, 400, 401, 403, 404, 412, 416] {
            assert!(!may_succeed_later(status), "{status}");
        }
    }
}
