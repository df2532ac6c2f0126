//! Runs one call of a gRPC service in the gateway. The call ends with the gateway, even if it waits for its client or
//! streams.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::codegen::Service;
use weir_protocol::Code;
use weir_serve::TimedBody;

use crate::body::DownstreamBody;
use crate::codec::grpc;

const SHUTS_DOWN: &str = "the gateway is shutting down";

/// Returns the request of a call with this head, addressed to the path at which the service has the method.
pub(crate) fn request(parts: &Parts, uri: Uri, body: TimedBody<Incoming>) -> Request<tonic::body::Body> {
    let mut request = Request::new(tonic::body::Body::new(body));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = parts.headers.clone();
    request
}

/// Lets a service answer a call, which ends with `shutdown`.
pub(crate) async fn answer<S>(
    mut service: S,
    request: Request<tonic::body::Body>,
    shutdown: CancellationToken,
) -> Response<DownstreamBody>
where
    S: Service<Request<tonic::body::Body>, Response = Response<tonic::body::Body>, Error = Infallible>,
{
    let answer: Result<_, Infallible> = tokio::select! {
        biased;
        answer = service.call(request) => answer,
        () = shutdown.cancelled() => return grpc::error(Code::Unavailable, SHUTS_DOWN),
    };
    let Ok(response) = answer;
    response.map(|body| {
        DownstreamBody::Relayed(UnsyncBoxBody::new(UntilShutdown {
            body: Some(body),
            shutdown: Box::pin(shutdown.cancelled_owned()),
        }))
    })
}

/// A response stream that ends with the gateway.
struct UntilShutdown {
    /// The service's response; `None` once the stream has ended.
    body: Option<tonic::body::Body>,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Body for UntilShutdown {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)));
        }
        if self.shutdown.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.body = None;
        let trailers = grpc::trailers(Code::Unavailable, SHUTS_DOWN);
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}
