//! Interprets the response to a request for the rest of a file.

use reqwest::Response;
use reqwest::header::{self, HeaderName};

/// The parts of a response that the download needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Offset of the first byte of a partial response; `None` without a valid `Content-Range`.
    pub(super) start: Option<u64>,
    /// Size of the whole file in bytes; `None` if the server does not state it.
    pub(super) total: Option<u64>,
    /// Strong entity tag, otherwise `Last-Modified`, for the header `If-Range`; `None` if the server sent neither.
    pub(super) validator: Option<String>,
}

/// Action that a response calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Append the body to the partial file.
    Append,
    /// Replace the partial file by the body.
    Restart,
    /// Discard the partial file and request the whole file.
    Discard,
    /// Repeat the request after a delay.
    Retry,
    /// Give up, because the server refuses the request.
    Refused,
}

/// Decides how to treat a response for a partial file of `length` bytes.
pub(super) fn judge(head: &Head, length: u64) -> Verdict {
    match head.status {
        206 if head.start == Some(length) => Verdict::Append,
        206 | 416 => Verdict::Discard,
        200 => Verdict::Restart,
        408 | 425 | 429 | 500..=599 => Verdict::Retry,
        _ => Verdict::Refused,
    }
}

impl Head {
    pub(super) fn of(response: &Response) -> Self {
        let text = |name: HeaderName| response.headers().get(name)?.to_str().ok();
        let status = response.status().as_u16();
        let range = text(header::CONTENT_RANGE).and_then(content_range);
        let (start, total) = match range {
            Some((start, total)) => (Some(start), total),
            None => (None, response.content_length()),
        };
        // A weak entity tag does not guarantee equal bytes.
        let tag = text(header::ETAG).filter(|tag| !tag.starts_with("W/"));
        let validator = tag.or_else(|| text(header::LAST_MODIFIED));
        Self { status, start, total, validator: validator.map(str::to_owned) }
    }
}

/// Parses `bytes START-END/TOTAL`, in which the total may be `*`.
fn content_range(value: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some((start.parse().ok()?, total.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: u16, start: Option<u64>, length: u64) -> Verdict {
        let head = Head { status, start, total: None, validator: None };
        judge(&head, length)
    }

    #[test]
    fn responses_lead_to_verdicts() {
        assert_eq!(verdict(206, Some(7), 7), Verdict::Append);
        assert_eq!(verdict(206, Some(6), 7), Verdict::Discard);
        assert_eq!(verdict(206, None, 7), Verdict::Discard);
        assert_eq!(verdict(416, None, 7), Verdict::Discard);
        assert_eq!(verdict(200, None, 7), Verdict::Restart);
        assert_eq!(verdict(503, None, 7), Verdict::Retry);
        assert_eq!(verdict(404, None, 0), Verdict::Refused);
        assert_eq!(verdict(304, None, 0), Verdict::Refused);
    }

    #[test]
    fn ranges_are_parsed() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, None)));
        assert_eq!(content_range("bytes */10"), None);
        assert_eq!(content_range("items 5-9/10"), None);
    }
}
