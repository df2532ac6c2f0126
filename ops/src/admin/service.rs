//! What answers a request: a page at once, or a service of the owner's in its own time.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

/// Why a body broke off.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The body of any answer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Answers requests in its own time.
pub(super) type Service = Arc<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>;

type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Any service that never fails, as one type.
pub(super) fn boxed<S, B>(service: S) -> Service
where
    S: hyper::service::Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    Arc::new(move |request| {
        let answering = service.call(request);
        Box::pin(async move {
            let response = match answering.await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            response.map(|body| body.map_err(Into::into).boxed_unsync())
        })
    })
}

/// A body that is there already.
pub(super) fn whole(body: Full<Bytes>) -> Body {
    body.map_err(|never| match never {}).boxed_unsync()
}
