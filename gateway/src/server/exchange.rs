//! Handles one request and its response, the same way for every HTTP version.

use std::net::IpAddr;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use weir_serve::{AfterBody, EarlyResponse, end_connection, leave_out_body};

use super::request_checks;
use crate::access::Guard;
use crate::body::DownstreamBody;
use crate::clock::now;
use crate::codec;
use crate::forward::trusted_headers;
use crate::headers;
use crate::protocol::Protocol;
use crate::proxy::{Inbound, Proxy};
use crate::upstream::Upgrade;

/// Answers one request that came from the address `from`. Every failure becomes a response.
pub(super) async fn respond(
    proxy: &Proxy,
    request: Request<Incoming>,
    from: Option<IpAddr>,
) -> Response<DownstreamBody> {
    let arrived = now();
    let (mut parts, body) = request.into_parts();
    trusted_headers::remove_untrusted(&mut parts, from, &proxy.context);
    let guard = Guard::new(proxy.context.options.access.as_deref(), &mut parts, from).await;
    let protocol = Protocol::of(&parts.headers);
    proxy.context.counters.count(protocol);
    let id = parts.headers.entry(headers::REQUEST_ID).or_insert_with(headers::new_request_id);
    // The ID differs on every request. HPACK would index it and evict repeated headers from its table.
    id.set_sensitive(true);
    let id = id.clone();
    let form = codec::ErrorForm::of(protocol, parts.uri.path());
    let upgrade = Upgrade::of(&parts);
    let mut body = Some(body);
    let checked = request_checks::check(protocol, &parts);
    let is_refused = checked.is_err();
    let answered = match checked {
        Ok(()) => proxy.proxy(&Inbound { protocol, arrived, guard: &guard }, &mut parts, &mut body).await,
        Err(error) => Err(error),
    };
    let mut response = answered.unwrap_or_else(|error| {
        guard.record(&error);
        codec::error(form, &error)
    });
    if parts.method == Method::HEAD {
        leave_out_body(&mut response);
    }
    let after = match body {
        Some(unread) => EarlyResponse::of(&parts).settle(unread).await,
        None => AfterBody::Reusable,
    };
    response.headers_mut().insert(headers::REQUEST_ID, id);
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    // A proxy may have parsed a refused request as two (request smuggling), and may take what follows a refused upgrade
    // for a WebSocket's bytes, so the server closes the connection after the response.
    if is_refused || upgrade != Upgrade::None || after == AfterBody::Close || proxy.context.leaving.is_cancelled() {
        end_connection(&mut response, parts.version);
    }
    response
}
