//! Request bodies for tonic, which waits for a client's message for ever.

use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;
use weir_ops::socket::{ConnectionLimits, Stalled, TimedBody};

use super::status;
use crate::error::ServeError;

/// Calls whose clients send as many messages as they like, when they like.
const STREAMS: [&str; 2] = ["/ModelStreamInfer", "/ServerReflectionInfo"];

/// The request, its body failing where its client stalls.
pub(super) fn timed(request: Request<Incoming>, limits: &ConnectionLimits) -> Request<Body> {
    let path = request.uri().path();
    let is_stream = STREAMS.iter().any(|call| path.ends_with(call));
    request.map(|body| {
        let timed = if is_stream {
            TimedBody::messages(body, limits.upload())
        } else {
            TimedBody::whole(body, limits.upload())
        };
        Body::new(timed.map_err(refusal))
    })
}

fn refusal(error: Box<dyn std::error::Error + Send + Sync>) -> Status {
    match error.downcast::<Stalled>() {
        Ok(stalled) => status(&ServeError::TooSlow(stalled.0)),
        Err(error) => Status::from_error(error),
    }
}
