//! One request and its response, whatever its connection.

use std::net::IpAddr;

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use weir_ops::header_names;

use super::request_checks;
use crate::body::{DownstreamBody, discard, linger};
use crate::clock::now;
use crate::codec;
use crate::forward::trusted_headers;
use crate::headers;
use crate::protocol::Protocol;
use crate::proxy::Proxy;

/// Answers one request from this address; every failure becomes a response.
pub(super) async fn respond(
    proxy: &Proxy,
    request: Request<Incoming>,
    from: Option<IpAddr>,
) -> Response<DownstreamBody> {
    let arrived = now();
    let (mut parts, body) = request.into_parts();
    trusted_headers::remove_untrusted(&mut parts.headers, from, &proxy.context);
    let protocol = Protocol::of(&parts.headers);
    proxy.context.counters.count(protocol);
    let id = parts.headers.entry(headers::REQUEST_ID);
    let id = id.or_insert_with(headers::new_request_id);
    // Differs on every request: indexed, it would only push repeated headers out of HTTP/2's tables.
    id.set_sensitive(true);
    let id = id.clone();
    let mut body = Some(body);
    let checked = request_checks::check(protocol, &parts);
    let is_refused = checked.is_err();
    let answered = match checked {
        Ok(()) => proxy.proxy(protocol, &mut parts, &mut body, arrived).await,
        Err(error) => Err(error),
    };
    let mut response = answered.unwrap_or_else(|error| codec::error(protocol, &error));
    if parts.method == Method::HEAD {
        leave_out_body(&mut response);
    }
    let is_never_sent = body.as_ref().is_some_and(|body| is_held_back(&parts, body));
    if let Some(unread) = body.filter(|_| !is_never_sent) {
        // Its client reads the response only after it has sent all, and hyper would close the connection.
        let rest = Box::pin(discard(unread)).await;
        if let Some(rest) = rest.filter(|_| is_sent_anyway(&parts)) {
            tokio::spawn(linger(rest));
        }
    }
    response.headers_mut().insert(headers::REQUEST_ID, id);
    // Others on its way may have taken such a request for two: what follows it is nobody's.
    if is_refused || is_never_sent || proxy.context.leaving.is_cancelled() {
        end_connection(&mut response, parts.version);
    }
    response
}

/// Ends an HTTP/1.1 connection with this response, so that its client sends nothing more on it.
fn end_connection(response: &mut Response<DownstreamBody>, version: Version) {
    if version < Version::HTTP_2 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
}

/// True if the client holds its body back until it gets `100 Continue`, which hyper sends once the body is read.
fn is_held_back(parts: &Parts, body: &Incoming) -> bool {
    let expected = header_names::first(&parts.headers, &EXPECT);
    let asks = expected.is_some_and(|what| what.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    asks && parts.version == Version::HTTP_11 && !body.is_end_stream()
}

/// Whether a client sends its body however early the response comes: over HTTP/2 its stream is reset, and one that asked
/// before it sends does not send it then.
fn is_sent_anyway(parts: &Parts) -> bool {
    parts.version < Version::HTTP_2 && !parts.headers.contains_key(EXPECT)
}

/// Leaves a response's length in place of its body, which hyper would send over HTTP/2 even to who asked for the head.
fn leave_out_body(response: &mut Response<DownstreamBody>) {
    if response.body().is_end_stream() {
        return;
    }
    let body = std::mem::take(response.body_mut());
    if let Some(length) = body.size_hint().exact() {
        let told = response.headers_mut().entry(CONTENT_LENGTH);
        told.or_insert(length.into());
    }
}
