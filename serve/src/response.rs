//! Responses after which a connection closes.

use http::header::{CONNECTION, HeaderValue};
use http::{Response, Version};

/// Closes an HTTP/1.1 connection after this response, so that the client sends no further request on it.
pub fn end_connection<B>(response: &mut Response<B>, version: Version) {
    if version < Version::HTTP_2 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
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
