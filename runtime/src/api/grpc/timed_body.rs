//! Adds a timeout to request bodies for tonic, which would wait forever for a client's message.

use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;
use weir_serve::{ConnectionLimits, Stalled, TimedBody};

use super::status;
use crate::error::ServeError;

/// Calls whose clients send any number of messages at any time.
const STREAMS: [&str; 2] = ["/ModelStreamInfer", "/ServerReflectionInfo"];

/// Returns the request with a body that fails if the client stalls.
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
