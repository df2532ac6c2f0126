//! Weir's own headers, and headers that belong to one connection only.

use std::time::Duration;

use http::header::{
    CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use weir_serve::header_names;

pub(crate) const TAG: HeaderName = HeaderName::from_static("weir-tag");
pub(crate) const REVISION: HeaderName = HeaderName::from_static("weir-revision");
pub(crate) const TIMEOUT: HeaderName = HeaderName::from_static("weir-timeout");
pub(crate) const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
pub(crate) const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
pub(crate) const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(crate) const HOP: HeaderName = HeaderName::from_static("weir-hop");
/// `weir-hop: 2` on a request that a gateway hands over: the client set a deadline under one second, so a timeout does
/// not count against the revision.
pub(crate) const HOP_CLIENT_DEADLINE: HeaderValue = HeaderValue::from_static("2");
/// `weir-hop: 1` on any other request that a gateway hands over.
pub(crate) const HOP_PLAIN: HeaderValue = HeaderValue::from_static("1");
/// Marks a copy of a request, whose response is discarded.
pub(crate) const MIRROR: HeaderName = HeaderName::from_static("weir-mirror");
/// Name of the client whose key or token the gateway has checked. Clients cannot set the header.
pub(crate) const CLIENT: HeaderName = HeaderName::from_static("weir-client");
/// Marks the refusal of a gateway that did no work on the request.
pub(crate) const UNSERVED: HeaderName = HeaderName::from_static("weir-unserved");
/// Marks a replica's refusal of a request on which it did no work. The gateway removes the header.
pub(crate) const REFUSED: HeaderName = HeaderName::from_static("weir-refused");
/// Time in microseconds since the request arrived at the gateway, for replicas whose timeouts count from that arrival.
/// `weir-runtime` does not read the header.
pub(crate) const WAITED: HeaderName = HeaderName::from_static("weir-waited-us");
pub(crate) const CAPACITY: HeaderName = HeaderName::from_static("weir-capacity");
/// Limit that the gateway that owns a queue has measured at a replica, in the responses to requests that another gateway
/// has handed over.
pub(crate) const LIMIT: HeaderName = HeaderName::from_static("weir-limit");
pub(crate) const BATCH: HeaderName = HeaderName::from_static("weir-batch");
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Headers of a request that only gateways may set: [`HOP`], [`MIRROR`] and [`CLIENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatewayHeaders {
    /// The request has none of them.
    Absent,
    /// The request comes from a gateway and has some of them.
    Trusted,
    /// The request had some of them, on a connection whose certificate is no longer that of a gateway.
    Outdated,
}

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const GRPC_TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Removes the headers that belong to one connection (RFC 9110, 7.6.1).
pub(crate) fn strip(headers: &mut HeaderMap) {
    if !headers.keys().any(may_belong_to_connection) {
        return;
    }
    for name in connection_options(headers) {
        headers.remove(name);
    }
    for name in [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
        EXPECT,
    ] {
        headers.remove(name);
    }
    if headers.get_all(TE).iter().any(|te| te != GRPC_TRAILERS) {
        headers.remove(TE);
    }
}

/// Removes the headers of a response that belong to one connection, except the names of its trailers. hyper sends only
/// trailers that the header `Trailer` names, to clients that accept trailers.
pub(crate) fn strip_response(headers: &mut HeaderMap) {
    let trailers = headers.remove(TRAILER);
    strip(headers);
    if let Some(trailers) = trailers {
        headers.insert(TRAILER, trailers);
    }
}

/// Returns true for a header that [`strip`] may remove. Most of them are rare, and this check costs less than removing
/// each name.
fn may_belong_to_connection(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_rare =
        matches!(name, "proxy-authenticate" | "proxy-authorization" | "trailer" | "transfer-encoding" | "expect");
    is_rare || matches!(name, "connection" | "keep-alive" | "proxy-connection" | "upgrade" | "te")
}

/// Returns the headers that `Connection` headers name.
fn connection_options(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter();
    let options = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    let names = options.filter_map(|name| HeaderName::try_from(name.trim()).ok());
    // `Host` is never a connection option, because requests are routed by it. Nor is the header with the client's name,
    // because a client could hide its name by that from replicas and from the gateway that owns the queue.
    names.filter(|name| *name != HOST && *name != CLIENT).collect()
}

/// Returns a header's value if it is text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    header_names::first(headers, name)?.to_str().ok()
}

/// Returns a header's value if it is a number.
pub(crate) fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u32> {
    text(headers, name)?.parse().ok()
}

/// Returns the size and duration of the batch to which a response belonged.
pub(crate) fn batch(headers: &HeaderMap) -> Option<(u32, Duration)> {
    let (mut size, mut took) = (None, None);
    for part in text(headers, &BATCH)?.split(';') {
        match part.split_once('=') {
            Some(("size", value)) => size = value.parse().ok(),
            Some(("us", value)) => took = value.parse().ok().map(Duration::from_micros),
            Some(_) | None => {}
        }
    }
    Some((size.filter(|size| *size > 0)?, took?))
}

/// Sets `server-timing`: the replica's own entries, with the time in the gateway's queue added to the entry `queue`.
pub(crate) fn add_timing(headers: &mut HeaderMap, queued: Duration) {
    let theirs = text(headers, &SERVER_TIMING);
    let timing = server_timing(theirs, queued);
    if let Ok(mut value) = HeaderValue::try_from(timing) {
        // The value differs on every response. HPACK would index it and evict repeated headers from its table.
        value.set_sensitive(true);
        headers.insert(SERVER_TIMING, value);
    }
}

fn server_timing(theirs: Option<&str>, queued: Duration) -> String {
    let mut queue_us = queued.as_micros() as u64;
    let mut others = String::new();
    for entry in theirs.unwrap_or_default().split(',').map(str::trim) {
        let (name, parameter) = entry.split_once(';').unwrap_or((entry, ""));
        let duration =
            parameter.trim().strip_prefix("dur=").and_then(|ms| ms.parse::<f64>().ok()).filter(|ms| *ms >= 0.0);
        match (name, duration) {
            ("", _) => {}
            ("queue", Some(ms)) => queue_us = queue_us.saturating_add((ms * 1000.0).round() as u64),
            _ => {
                others.push_str(", ");
                others.push_str(entry);
            }
        }
    }
    let mut digits = itoa::Buffer::new();
    let mut text = String::with_capacity(32 + others.len());
    text.push_str("queue;dur=");
    text.push_str(digits.format(queue_us / 1000));
    text.push('.');
    // The leading 1 of 1000 to 1999 is cut off, so that three digits with their zeros remain.
    text.push_str(&digits.format(1000 + queue_us % 1000)[1..]);
    text.push_str(&others);
    text
}

/// Generates an ID for a request that has none.
pub(crate) fn new_request_id() -> HeaderValue {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let random = fastrand::u128(..);
    let id: [u8; 32] = std::array::from_fn(|i| DIGITS[(random >> (4 * i)) as usize & 15]);
    // The value consists of hexadecimal digits only, so it is valid.
    HeaderValue::from_bytes(&id).unwrap_or(HeaderValue::from_static("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_times_are_added_and_other_entries_are_kept() {
        let ours = Duration::from_micros(1500);
        assert_eq!(server_timing(None, ours), "queue;dur=1.500");
        assert_eq!(
            server_timing(Some("queue;dur=0.250, compute;dur=12.000"), ours),
            "queue;dur=1.750, compute;dur=12.000"
        );
        assert_eq!(server_timing(Some("db, x;desc=\"y\""), ours), "queue;dur=1.500, db, x;desc=\"y\"");
    }

    #[test]
    fn headers_of_one_connection_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-mine, host"),
            ("connection", "x-also-mine"),
            ("x-mine", "1"),
            ("x-also-mine", "1"),
            ("host", "a.b"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("x-yours", "2"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["host", "te", "x-yours"]);
    }

    #[test]
    fn batches_are_read() {
        let mut headers = HeaderMap::new();
        headers.insert(BATCH, HeaderValue::from_static("size=8;us=12300;new=1"));
        assert_eq!(batch(&headers), Some((8, Duration::from_micros(12_300))));
        headers.insert(BATCH, HeaderValue::from_static("size=0;us=1"));
        assert_eq!(batch(&headers), None);
    }
}
