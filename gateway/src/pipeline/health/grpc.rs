//! Answers `grpc.health.v1.Health` for a service at once, like ready calls: it takes no credit and wakes no revision.
//! If a watch were forwarded to a replica, it would hold a credit for as long as the client keeps it open.

use std::sync::Arc;

use http::Uri;
use http::request::Parts;
use hyper::body::Incoming;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use weir_serve::TimedBody;

use super::grpc_call;
use super::service::HealthService;
use crate::body::DownstreamBody;
use crate::context::Context;
use crate::wire::protocol::Protocol;

/// Paths of the calls, as a server sees them.
const CALLS: [&str; 2] = ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"];

/// Returns the path of a health call, without its first `prefix` bytes; `None` for any other request.
pub(crate) fn path_of_call(protocol: Protocol, parts: &Parts, prefix: usize) -> Option<&'static str> {
    let path = match protocol {
        Protocol::Grpc => parts.uri.path().get(prefix..)?,
        Protocol::Http => return None,
    };
    CALLS.into_iter().find(|call| *call == path)
}

/// Answers a health call for the service to which the request's head leads.
pub(crate) async fn answer(
    context: &Arc<Context>,
    path: &'static str,
    parts: &Parts,
    body: Incoming,
) -> http::Response<DownstreamBody> {
    // The name in the message is ignored, as in Triton and the runtime: the call asks about the service to which it was
    // sent. The head leads to the service also after a rollout.
    let (served, head) = (Arc::clone(context), Arc::new(parts.clone()));
    let status = move |_: &str| {
        let serves = served.state.load().routes.would_serve(&head);
        if serves { ServingStatus::Serving } else { ServingStatus::NotServing }
    };
    let health = HealthService { status, leaving: context.leaving.clone() };
    // The request is a single message. Unlike the next message of a stream, it is expected at once.
    let body = TimedBody::whole(body, context.options.connections.upload());
    let request = grpc_call::request(parts, Uri::from_static(path), body);
    let shutdown = context.shutdown.clone();
    grpc_call::answer(HealthServer::new(health), request, shutdown).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_health_calls_below_the_prefix_are_recognized() {
        let found = |protocol, path: &str, prefix| {
            let parts = http::Request::post(path).body(()).unwrap().into_parts().0;
            path_of_call(protocol, &parts, prefix)
        };
        let check = "/grpc.health.v1.Health/Check";
        let below = "/serving/default/digits/grpc.health.v1.Health/Watch";
        assert_eq!(found(Protocol::Grpc, check, 0), Some(check));
        assert_eq!(found(Protocol::Grpc, below, 23), Some(CALLS[1]));
        assert_eq!(found(Protocol::Grpc, below, 0), None);
        assert_eq!(found(Protocol::Http, check, 0), None);
        assert_eq!(found(Protocol::Grpc, "/grpc.health.v1.Health/List", 0), None);
    }
}
