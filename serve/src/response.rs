//! Responses after which a connection closes, and responses to HEAD.

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue};
use http::{Response, Version};
use http_body::Body;

/// Closes an HTTP/1.1 connection after this response, so that the client sends no further request on it.
pub fn end_connection<B>(response: &mut Response<B>, version: Version) {
    if version < Version::HTTP_2 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
}

/// Replaces the body of a response to HEAD by its `content-length`. Over HTTP/2 hyper would send the body.
pub fn leave_out_body<B: Body + Default>(response: &mut Response<B>) {
    if response.body().is_end_stream() {
        return;
    }
    let body = std::mem::take(response.body_mut());
    if let Some(length) = body.size_hint().exact() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connections_of_http1_are_closed() {
        for (version, closes) in [(Version::HTTP_11, true), (Version::HTTP_2, false)] {
            let mut response = Response::new(());
            end_connection(&mut response, version);
            assert_eq!(response.headers().contains_key(CONNECTION), closes, "{version:?}");
        }
    }
}
