//! Turns the status of malformed requests into `INVALID_ARGUMENT`. tonic reports them as `INTERNAL`, an error of the
//! server. A gateway would count them as failures of the revision, so that any client could cause a rollback.

use http::{HeaderValue, Response};
use percent_encoding::percent_decode;
use tonic::{Code, Status};

const STATUS: &str = "grpc-status";

/// Starts of tonic's messages about malformed requests; the first comes from the protobuf decoder.
const MESSAGE_STARTS: [&str; 4] = [
    "failed to decode Protobuf message",
    "Missing request message",
    "Unexpected EOF decoding stream",
    "protocol error: received message with",
];

/// Corrects the status of a request that could not be read.
pub(super) fn status(read: Status) -> Status {
    match read.code() {
        Code::Internal => Status::invalid_argument(read.message()),
        _ => read,
    }
}

/// Corrects tonic's response to such a request.
pub(super) fn correct<B>(mut response: Response<B>) -> Response<B> {
    if is_malformed_request(&response) {
        let invalid = HeaderValue::from(Code::InvalidArgument as i32);
        response.headers_mut().insert(STATUS, invalid);
    }
    response
}

fn is_malformed_request<B>(response: &Response<B>) -> bool {
    let headers = response.headers();
    let Some(status) = headers.get(STATUS) else {
        return false;
    };
    let message = headers.get("grpc-message").map(HeaderValue::as_bytes);
    let message = percent_decode(message.unwrap_or_default()).decode_utf8_lossy();
    Code::from_bytes(status.as_bytes()) == Code::Internal
        && MESSAGE_STARTS.iter().any(|start| message.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corrected(status: Status) -> HeaderValue {
        let response = correct(status.into_http::<()>());
        response.headers()[STATUS].clone()
    }

    #[test]
    fn only_unreadable_requests_are_the_clients_error() {
        let unread = prost::Message::decode(&b"\xff"[..]).map(|(): ()| ());
        let unread = unread.unwrap_err().to_string();
        assert_eq!(corrected(Status::internal(unread)), "3");
        assert_eq!(corrected(Status::internal("Missing request message.")), "3");
        assert_eq!(corrected(Status::internal("PyTorch execute failure")), "13");
        assert_eq!(corrected(Status::not_found(MESSAGE_STARTS[0])), "5");
        let full = status(Status::resource_exhausted("full"));
        assert_eq!(full.code(), Code::ResourceExhausted);
    }
}
