//! Answers ready and live calls at once. The calls do not wait in the queue, for a revision at zero or for a failing
//! start, and they wake no revision.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Response, Version};
use weir_protocol::Code;
use weir_protocol::grpc::proto;
use weir_protocol::rest::{self, Health};

use crate::body::{BufferedBody, DownstreamBody};
use crate::codec::{grpc, http::json};
use crate::pipeline::forward::attempt::exchange;
use crate::pipeline::forward::relay::{Relay, RelayEnd};
use crate::pipeline::forward::request::ProxyRequest;
use crate::queue::Readiness;
use crate::router::model_of_path;
use crate::upstream::{Channel, Upstream};
use crate::wire::headers;
use crate::wire::protocol::Protocol;

/// Longest wait for the replica's own answer, the same as for a probe.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Subject of a health call. `ModelReady` contains the model's name, or an empty one over gRPC.
enum HealthCall<'a> {
    Live,
    Ready,
    ModelReady(Cow<'a, str>),
}

/// Returns true if a request is a ready or live call.
pub(crate) fn is_health_call(request: &ProxyRequest) -> bool {
    subject(request).is_some()
}

/// Answers a ready or live call. If a replica takes requests, the call is sent to it. A revision at zero is ready,
/// because the next request starts a replica.
pub(crate) async fn answer(request: &ProxyRequest, buffered: &mut BufferedBody) -> Response<DownstreamBody> {
    let subject = subject(request).unwrap_or(HealthCall::Ready);
    let mut response = match request.queue.readiness() {
        Readiness::Serving(upstream) => match ask(request, buffered, &upstream).await {
            Ok(response) => response,
            Err(because) => local(request.protocol, &subject, Err(&because)),
        },
        Readiness::AtZero => local(request.protocol, &subject, Ok(())),
        Readiness::Down(because) => local(request.protocol, &subject, Err(&because)),
    };
    let revision = request.queue.header.clone();
    response.headers_mut().insert(headers::REVISION, revision);
    response
}

fn subject(request: &ProxyRequest) -> Option<HealthCall<'_>> {
    let path = request.path.path();
    match request.protocol {
        Protocol::Http if request.method == Method::GET || request.method == Method::HEAD => {
            of_path(path.strip_suffix('/').unwrap_or(path))
        }
        Protocol::Http => None,
        Protocol::Grpc => match path.strip_prefix("/inference.GRPCInferenceService/")? {
            "ServerLive" => Some(HealthCall::Live),
            "ServerReady" => Some(HealthCall::Ready),
            // The gRPC response has no name field, so the name is not needed.
            "ModelReady" => Some(HealthCall::ModelReady(Cow::Borrowed(""))),
            _ => None,
        },
    }
}

fn of_path(path: &str) -> Option<HealthCall<'_>> {
    match path {
        "/v2/health/live" => return Some(HealthCall::Live),
        "/v2/health/ready" => return Some(HealthCall::Ready),
        _ => {}
    }
    let rest = path.strip_prefix("/v2/models/")?.strip_suffix("/ready")?;
    let is_model = match rest.split_once('/') {
        None => true,
        Some((_, version)) => version.strip_prefix("versions/").is_some_and(|v| !v.contains('/')),
    };
    model_of_path(path).filter(|_| is_model).map(HealthCall::ModelReady)
}

/// Sends the call to a replica without a credit, because the answer costs the replica no work. The error is a clause
/// with the reason why the replica gave no answer.
async fn ask(
    request: &ProxyRequest,
    buffered: &mut BufferedBody,
    upstream: &Arc<Upstream>,
) -> Result<Response<DownstreamBody>, String> {
    let asking = exchange(request.protocol, buffered, upstream, Channel::Common, |body| request.to_replica(body));
    let reply = match tokio::time::timeout(TIMEOUT, asking).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => return Err(format!("replica {}: {}", upstream.name, error.because)),
        Err(_) => {
            let name = &upstream.name;
            return Err(format!("replica {name} does not answer the ready call"));
        }
    };
    let (mut parts, body) = reply.into_parts();
    headers::strip(&mut parts.headers);
    parts.version = Version::HTTP_11;
    if let Some(capacity) = headers::number(&parts.headers, &headers::CAPACITY) {
        request.queue.report_capacity(upstream, capacity);
    }
    let relay = Relay::new(body, request, buffered.upload(), RelayEnd::Gateway);
    Ok(Response::from_parts(parts, relay.into_body()))
}

/// Returns the gateway's own answer. An error in `ready` is the reason that the revision is not ready.
fn local(protocol: Protocol, subject: &HealthCall<'_>, ready: Result<(), &str>) -> Response<DownstreamBody> {
    match (protocol, subject) {
        (Protocol::Http, HealthCall::Live) => match ready {
            Ok(()) => json(rest::live(Health::Up)),
            Err(because) => unavailable(rest::not_live(because)),
        },
        (Protocol::Http, HealthCall::Ready) => match ready {
            Ok(()) => json(rest::ready(Health::Up)),
            Err(because) => unavailable(rest::not_ready(None, because)),
        },
        (Protocol::Http, HealthCall::ModelReady(name)) => match ready {
            Ok(()) => json(rest::model_ready(name, Health::Up)),
            Err(because) => unavailable(rest::not_ready(Some(name), because)),
        },
        (Protocol::Grpc, HealthCall::Live) => grpc::message(&proto::ServerLiveResponse { live: ready.is_ok() }),
        (Protocol::Grpc, HealthCall::Ready) => grpc::message(&proto::ServerReadyResponse { ready: ready.is_ok() }),
        (Protocol::Grpc, HealthCall::ModelReady(_)) => {
            grpc::message(&proto::ModelReadyResponse { ready: ready.is_ok() })
        }
    }
}

fn unavailable(body: bytes::Bytes) -> Response<DownstreamBody> {
    let mut response = json(body);
    *response.status_mut() = Code::Unavailable.http();
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ready_and_live_paths_are_health_calls() {
        let model = |path| match of_path(path) {
            Some(HealthCall::ModelReady(name)) => Some(name.into_owned()),
            Some(HealthCall::Ready | HealthCall::Live) | None => None,
        };
        assert!(matches!(of_path("/v2/health/ready"), Some(HealthCall::Ready)));
        assert!(matches!(of_path("/v2/health/live"), Some(HealthCall::Live)));
        assert_eq!(model("/v2/models/a/ready").as_deref(), Some("a"));
        assert_eq!(model("/v2/models/a%2Eb/versions/1/ready").as_deref(), Some("a.b"));
        for path in [
            "/v2/health",
            "/v2/models/ready",
            "/v2/models/a",
            "/v2/models/a/versions/1/2/ready",
            "/v2/models//ready",
            "/v1/models/a/ready",
        ] {
            assert!(of_path(path).is_none(), "{path}");
        }
    }
}
