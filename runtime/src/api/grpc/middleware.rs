//! The layer around tonic's routes: trailing metadata of successful unary calls, restricted calls, the byte budget,
//! timeouts and metrics.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use weir_protocol::{Code, Coded};
use weir_serve::byte_budget::BudgetPermit;

use super::GrpcOptions;
use super::budgeted_body::{self, BudgetedBody};
use super::malformed;
use super::whole_messages::{self, MessageLimits, WholeMessages};
use crate::api::serving_headers;
use crate::engine::Cost;
use crate::error::ServeError;
use crate::incoming::restriction::{self, ApiGroup};
use crate::metrics::{Protocol, Requests};

/// Metadata for a response's trailers, passed in the response's extensions.
#[derive(Clone, Debug)]
pub(super) struct Trailers(pub(super) HeaderMap);

impl Trailers {
    pub(super) fn of(cost: &Cost, capacity: usize) -> Self {
        let mut headers = HeaderMap::with_capacity(4);
        let mut insert = |name: &'static str, value: Result<HeaderValue, _>| {
            if let Ok(mut value) = value {
                // The value differs in every response, so adding it to HPACK's table would only evict headers that
                // repeat.
                value.set_sensitive(true);
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        insert("server-timing", HeaderValue::try_from(serving_headers::server_timing(cost)));
        insert("weir-batch", HeaderValue::try_from(serving_headers::batch(cost)));
        insert("weir-capacity", Ok(HeaderValue::from(capacity)));
        Self(headers)
    }
}

/// Wraps the routes of the gRPC server.
#[derive(Clone)]
pub(super) struct Middleware<S> {
    inner: S,
    options: Arc<GrpcOptions>,
    requests: Requests,
    limits: MessageLimits,
}

impl<S> Middleware<S> {
    pub(super) fn new(inner: S, options: Arc<GrpcOptions>, requests: Requests, limits: MessageLimits) -> Self {
        Self { inner, options, requests, limits }
    }

    /// Returns the request with a body that yields whole, decompressed messages, counted in `permit`.
    fn receive(&self, request: Request<Body>, permit: Arc<BudgetPermit>) -> Request<Body> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path();
        let limits = MessageLimits { size: budgeted_body::longest_message(path, self.limits.size), ..self.limits };
        let coding = whole_messages::take_coding(&mut parts.headers);
        let own = self.options.body_budget.permit();
        let body = Body::new(WholeMessages::new(body, coding, limits, own));
        let body = BudgetedBody::new(body, path, limits.size, permit);
        Request::from_parts(parts, Body::new(body))
    }
}

impl<S> Service<Request<Body>> for Middleware<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let in_flight = self.requests.begin(Protocol::Grpc);
        let timeout = match admit(&self.options, request.uri().path(), request.headers()) {
            Ok(timeout) => timeout,
            Err(error) => {
                in_flight.finish(Some(error.code()));
                return Box::pin(async move { Ok(super::status(&error).into_http()) });
            }
        };
        let permit = Arc::new(self.options.body_budget.permit());
        let request_permit = Arc::clone(&permit);
        let request = self.receive(request, request_permit);
        let inner = self.inner.call(request);
        let answer = with_timeout(timeout, async move { inner.await.map_err(|never| match never {}) });
        Box::pin(async move {
            let response = malformed::correct(answer.await.unwrap_or_else(Status::into_http));
            drop(permit);
            in_flight.finish(failure(&response));
            Ok(with_trailers(response))
        })
    }
}

/// Ends a call when its timeout passes. tonic would do so a moment later, but would report that the client had
/// cancelled the call.
pub(super) fn with_timeout<T>(
    timeout: Option<Duration>,
    answer: impl Future<Output = Result<T, Status>>,
) -> impl Future<Output = Result<T, Status>> {
    let expiry = timeout.map(tokio::time::sleep);
    async move {
        let Some(expiry) = expiry else {
            return answer.await;
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            () = expiry => Err(Status::deadline_exceeded("Deadline Exceeded")),
        }
    }
}

/// Checks the head of a call, before its message is read. Returns the call's timeout.
///
/// # Errors
/// [`ServeError`] for a control call under `--control-routes closed`, for a call without the header of its restricted
/// group, and for a malformed timeout.
pub(super) fn admit(options: &GrpcOptions, path: &str, headers: &HeaderMap) -> Result<Option<Duration>, ServeError> {
    if let Some(group) = group(path) {
        options.control.check(group)?;
        let given = |name: &str| headers.get(name)?.to_str().ok();
        if let Some(header) = restriction::missing_key(&options.restricted, group, given) {
            let message = format!("This protocol is restricted, expecting header '{header}'");
            return Err(ServeError::Restricted(message));
        }
    }
    super::grpc_timeout(headers)
}

/// Returns the group of a method; `None` for unknown methods, and for services that are never restricted.
fn group(path: &str) -> Option<ApiGroup> {
    if path.starts_with("/grpc.health.v1.Health/") {
        return Some(ApiGroup::Health);
    }
    if path.starts_with("/grpc.reflection.") {
        return Some(ApiGroup::Reflection);
    }
    let group = match path.strip_prefix("/inference.GRPCInferenceService/")? {
        "ServerLive" | "ServerReady" | "ModelReady" => ApiGroup::Health,
        "ServerMetadata" | "ModelMetadata" => ApiGroup::Metadata,
        "ModelInfer" | "ModelStreamInfer" => ApiGroup::Inference,
        "ModelConfig" => ApiGroup::ModelConfig,
        "ModelStatistics" => ApiGroup::Statistics,
        "RepositoryIndex" | "RepositoryModelLoad" | "RepositoryModelUnload" => ApiGroup::ModelRepository,
        "TraceSetting" => ApiGroup::Trace,
        "LogSettings" => ApiGroup::Logging,
        name if name.contains("SharedMemory") => ApiGroup::SharedMemory,
        _ => return None,
    };
    Some(group)
}

/// Returns the code of a failed call, whose status is in the headers of its response.
fn failure(response: &Response<Body>) -> Option<Code> {
    let status = response.headers().get("grpc-status")?;
    Code::of_grpc(tonic::Code::from_bytes(status.as_bytes()))
}

fn with_trailers(mut response: Response<Body>) -> Response<Body> {
    match response.extensions_mut().remove::<Trailers>() {
        Some(Trailers(extra)) => response.map(|inner| Body::new(WithTrailers { inner, extra: Some(extra) })),
        None => response,
    }
}

/// A body with additional trailers.
struct WithTrailers {
    inner: Body,
    extra: Option<HeaderMap>,
}

impl HttpBody for WithTrailers {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            other => return other,
        };
        let frame = match frame.into_trailers() {
            Ok(mut trailers) => {
                trailers.extend(self.extra.take().unwrap_or_default());
                Frame::trailers(trailers)
            }
            Err(frame) => frame,
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn status_after(work: Duration, timeout: Option<Duration>) -> Option<tonic::Code> {
        let answer = with_timeout(timeout, async move {
            tokio::time::sleep(work).await;
            Ok(())
        });
        answer.await.err().map(|status| status.code())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_when_its_timeout_passes() {
        let second = Duration::from_secs(1);
        let late = status_after(2 * second, Some(second)).await;
        assert_eq!(late, Some(tonic::Code::DeadlineExceeded));
        assert_eq!(status_after(second, Some(2 * second)).await, None);
        assert_eq!(status_after(second, None).await, None);
    }
}
