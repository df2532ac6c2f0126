//! Handles one request and its response, the same way for every HTTP version.

use std::net::IpAddr;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use weir_serve::{
    AfterBody, EarlyResponse, PlaceHandle, Stream, Traffic, end_connection, header_names, leave_out_body,
};

use super::request_checks;
use crate::access::{Guard, HeldLimits, RequestOrigin, RequestShares};
use crate::body::DownstreamBody;
use crate::clock::now;
use crate::codec;
use crate::error::GatewayError;
use crate::pipeline::forward::trusted_headers;
use crate::pipeline::proxy::{Inbound, Proxy};
use crate::upstream::Upgrade;
use crate::wire::headers::{self, GatewayHeaders};
use crate::wire::protocol::Protocol;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Address of the sender; `None` if the connection has already ended.
    pub(super) address: Option<IpAddr>,
    pub(super) place: PlaceHandle,
    pub(super) traffic: Arc<Traffic>,
}

/// Slots in limits that a request occupies until its response has ended; `None` if no limit counts it.
pub(super) type RequestLimits = Option<Box<HeldLimits>>;

impl Peer {
    pub(super) fn of(stream: &Stream) -> Self {
        Self { address: stream.peer(), place: stream.place().handle(), traffic: stream.traffic() }
    }
}

/// Answers one request of this peer. Every failure becomes a response. Also returns the slots that the request occupies
/// in limits; the caller keeps them until the response has ended.
pub(super) async fn respond(
    proxy: &Proxy,
    request: Request<Incoming>,
    peer: &Peer,
) -> (Response<DownstreamBody>, RequestLimits) {
    let arrived = now();
    let (mut parts, body) = request.into_parts();
    let marks = trusted_headers::remove_untrusted(&mut parts, peer.address, &proxy.context);
    let protocol = Protocol::of(&parts.headers);
    let origin = RequestOrigin { address: peer.address, marks, protocol };
    let shares = RequestShares::new(&proxy.context.requests, &peer.place);
    let mut guard = Guard::new(proxy.context.options.access.as_deref(), &mut parts, origin, shares).await;
    proxy.context.counters.count(protocol);
    let id = parts.headers.entry(headers::REQUEST_ID).or_insert_with(headers::new_request_id);
    // The ID differs on every request. HPACK would index it and evict repeated headers from its table.
    id.set_sensitive(true);
    let id = id.clone();
    let form = codec::ErrorForm::of(protocol, parts.uri.path());
    let upgrade = Upgrade::of(&parts);
    let mut body = Some(body);
    let checked = match marks {
        GatewayHeaders::Outdated => Err(GatewayError::FormerGateway),
        GatewayHeaders::Absent | GatewayHeaders::Trusted => request_checks::check(protocol, &parts),
    };
    let is_refused = checked.is_err();
    let is_handed_over = marks == GatewayHeaders::Trusted && header_names::has(&parts.headers, &headers::HOP);
    let answered = match checked {
        Ok(()) => proxy.proxy(&Inbound { protocol, arrived, guard: &guard }, &mut parts, &mut body).await,
        Err(error) => Err(error),
    };
    let answered = answered.map_err(|error| if is_handed_over { error.of_handed_over() } else { error });
    let closes = answered.as_ref().is_err_and(GatewayError::closes_connection);
    let mut response = answered.unwrap_or_else(|error| {
        guard.record(&error);
        codec::error(form, &error)
    });
    let held = guard.take_held();
    if parts.method == Method::HEAD {
        leave_out_body(&mut response);
    }
    let after = match body {
        Some(unread) => EarlyResponse::of(&parts).settle(unread).await,
        None => AfterBody::Reusable,
    };
    response.headers_mut().insert(headers::REQUEST_ID, id);
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return (response, held);
    }
    // A proxy may have parsed a refused request as two (request smuggling), and may take what follows a refused upgrade
    // for a WebSocket's bytes, so the server closes the connection after the response.
    let leaves = proxy.context.leaving.is_cancelled();
    if is_refused || closes || upgrade != Upgrade::None || after == AfterBody::Close || leaves {
        end_connection(&mut response, parts.version);
    }
    if closes {
        peer.traffic.retire();
    }
    (response, held)
}
