//! Responses of the test's replica.

use std::io;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::infallible;

pub(super) type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

pub(super) fn empty() -> Response<ResponseBody> {
    let nothing = Empty::new().map_err(infallible);
    Response::new(nothing.boxed_unsync())
}

/// Returns a V2 response with the label.
pub(super) fn label(label: &str) -> Response<ResponseBody> {
    let text =
        format!(r#"{{"outputs": [{{"name": "label", "datatype": "BYTES", "shape": [1], "data": ["{label}"]}}]}}"#);
    let whole = Full::from(text).map_err(infallible);
    typed("application/json", whole.boxed_unsync())
}

/// Returns a unary gRPC response with the message of the request.
pub(super) fn grpc(message: Bytes) -> Response<ResponseBody> {
    let end = async { Some(Ok(ok())) };
    let whole = Full::new(message).with_trailers(end).map_err(infallible);
    typed("application/grpc", whole.boxed_unsync())
}

/// Returns a response that sends back each frame of the request as it arrives.
pub(super) fn echo_frames(mut body: Incoming) -> Response<ResponseBody> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(Ok(frame)) = body.frame().await {
            if sender.send(Ok(frame)).await.is_err() {
                return;
            }
        }
        // The client may have closed the connection.
        let _ = sender.send(Ok(Frame::trailers(ok()))).await;
    });
    let frames = StreamBody::new(ReceiverStream::new(receiver));
    typed("application/grpc", frames.boxed_unsync())
}

/// Returns server-sent events: one at once, the second when `released` completes.
pub(super) fn events(released: impl Future<Output = ()> + Send + 'static) -> Response<ResponseBody> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let event = |text: &'static str| Ok(Frame::data(Bytes::from_static(text.as_bytes())));
        // The client may have closed the connection.
        let _ = sender.send(event("data: one\n\n")).await;
        released.await;
        let _ = sender.send(event("data: two\n\n")).await;
    });
    let frames = StreamBody::new(ReceiverStream::new(receiver));
    typed("text/event-stream", frames.boxed_unsync())
}

/// Returns the same response with a body that fails after its first bytes.
pub(super) fn broken_off(answer: Response<ResponseBody>) -> Response<ResponseBody> {
    let (mut head, _) = answer.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let begin = Ok(Frame::data(Bytes::from_static(b"{")));
        // The client may have closed the connection.
        let _ = sender.send(begin).await;
        let _ = sender.send(Err(io::Error::other("broken off"))).await;
    });
    let frames = StreamBody::new(ReceiverStream::new(receiver));
    Response::from_parts(head, frames.boxed_unsync())
}

fn typed(kind: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn ok() -> HeaderMap {
    HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))])
}
