//! Handles one request and its response, the same way for every HTTP version.

use std::net::IpAddr;

use http::header::{CONTENT_LENGTH, EXPECT};
use http::request::Parts;
use http::{Method, Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use weir_serve::{end_connection, header_names};

use super::request_checks;
use crate::body::{DownstreamBody, discard, linger};
use crate::clock::now;
use crate::codec;
use crate::forward::trusted_headers;
use crate::headers;
use crate::protocol::Protocol;
use crate::proxy::Proxy;

/// Answers one request that came from the address `from`. Every failure becomes a response.
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
    let id = parts.headers.entry(headers::REQUEST_ID).or_insert_with(headers::new_request_id);
    // The ID differs on every request. HPACK would index it and evict repeated headers from its table.
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
        // An HTTP/1.1 client reads the response only after it has sent its body, and hyper closes a connection with an
        // unread body.
        let rest = Box::pin(discard(unread)).await;
        if let Some(rest) = rest.filter(|_| is_sent_anyway(&parts)) {
            tokio::spawn(linger(rest));
        }
    }
    response.headers_mut().insert(headers::REQUEST_ID, id);
    // A proxy may have parsed a refused request as two (request smuggling), and a client may still send a body that it
    // has held back, so the server closes the connection after the response.
    if is_refused || is_never_sent || proxy.context.leaving.is_cancelled() {
        end_connection(&mut response, parts.version);
    }
    response
}

/// True if the client holds its body back until it gets `100 Continue`, which hyper sends once the body is read.
fn is_held_back(parts: &Parts, body: &Incoming) -> bool {
    let expected = header_names::first(&parts.headers, &EXPECT);
    let asks = expected.is_some_and(|what| what.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    asks && parts.version == Version::HTTP_11 && !body.is_end_stream()
}

/// True if the client sends its body even after an early response. Over HTTP/2 the stream is reset instead, and a
/// client that sent `Expect: 100-continue` does not send its body after a final response.
fn is_sent_anyway(parts: &Parts) -> bool {
    parts.version < Version::HTTP_2 && !parts.headers.contains_key(EXPECT)
}

/// Replaces a response's body by its `content-length`. Over HTTP/2 hyper would send the body even in answer to HEAD.
fn leave_out_body(response: &mut Response<DownstreamBody>) {
    if response.body().is_end_stream() {
        return;
    }
    let body = std::mem::take(response.body_mut());
    if let Some(length) = body.size_hint().exact() {
        let length_header = response.headers_mut().entry(CONTENT_LENGTH);
        length_header.or_insert(length.into());
    }
}
