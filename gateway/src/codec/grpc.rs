//! gRPC's framing, statuses and trailers.

use std::borrow::Cow;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use weir_protocol::Code;
use weir_protocol::grpc::status_with;
use weir_serve::header_names;

use crate::body::{ChunkReader, DownstreamBody};
use crate::queue::Verdict;
use crate::wire::headers::GRPC_STATUS;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const OK: HeaderValue = HeaderValue::from_static("0");

/// Message encodings that the gateway can decompress, as listed for clients in `grpc-accept-encoding`.
pub(crate) const ENCODINGS: HeaderValue = HeaderValue::from_static("identity,deflate,gzip");

/// Bytes of a message's prefix: a flag and four bytes of length.
const PREFIX: usize = 5;

/// Returns a trailers-only response with this status.
pub(crate) fn error(code: Code, sentence: &str) -> Response<DownstreamBody> {
    let mut response = Response::new(DownstreamBody::default());
    *response.headers_mut() = trailers(code, sentence);
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response
}

/// Returns trailers with this status, for a response that the gateway ends early.
pub(crate) fn trailers(code: Code, sentence: &str) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(2);
    let status = status_with(code, sentence);
    if status.add_header(&mut headers).is_err() {
        headers.insert(GRPC_STATUS, HeaderValue::from(code.grpc() as i32));
    }
    headers
}

/// Returns a response with one message and the status OK.
pub(crate) fn message(message: &impl prost::Message) -> Response<DownstreamBody> {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, OK);
    let mut response = Response::new(DownstreamBody::with_trailers(framed(message), trailers));
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response
}

/// Encodes a message with its prefix.
pub(crate) fn framed(message: &impl prost::Message) -> Bytes {
    let length = message.encoded_len();
    let mut data = BytesMut::with_capacity(PREFIX + length);
    data.put_u8(0);
    data.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // This cannot fail, because the buffer grows.
    let _ = message.encode(&mut data);
    data.freeze()
}

/// Returns the message of a body that consists of exactly one uncompressed message; `None` for other bodies.
pub(crate) fn only_message(mut body: Bytes) -> Option<Bytes> {
    let (prefix, rest) = body.split_first_chunk::<PREFIX>()?;
    let [flag, a, b, c, d] = *prefix;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    (flag == 0 && rest.len() == length).then(|| body.split_off(PREFIX))
}

/// Returns the `grpc-status` in headers or trailers.
pub(crate) fn status(headers: &HeaderMap) -> Option<tonic::Code> {
    let status = header_names::first(headers, &GRPC_STATUS)?;
    Some(tonic::Code::from_bytes(status.as_bytes()))
}

/// Returns the verdict on a status.
pub(crate) fn verdict(status: tonic::Code) -> Verdict {
    super::counted(Code::of_grpc(status))
}

/// Returns the first message of a body's `head`, as far as it has arrived: without prefix, and decompressed up to
/// `most` bytes. `None` while the prefix is incomplete, or for an unknown compression.
pub(crate) fn first_message<'a>(head: &'a [u8], encoding: Option<&str>, most: usize) -> Option<Cow<'a, [u8]>> {
    let (prefix, rest) = head.split_at_checked(PREFIX)?;
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    let message = &rest[..rest.len().min(length)];
    match (prefix[0], encoding) {
        (0, _) | (_, Some("identity")) => Some(Cow::Borrowed(message)),
        (_, Some("gzip")) => Some(unpacked(flate2::read::MultiGzDecoder::new(message), most)),
        (_, Some("deflate")) => Some(unpacked(flate2::read::ZlibDecoder::new(message), most)),
        (_, Some(_) | None) => None,
    }
}

/// Returns the first message of a body without its prefix, as far as it has arrived; `None` if it is compressed.
pub(crate) fn plain_message(mut body: ChunkReader<'_>) -> Option<ChunkReader<'_>> {
    let flag = body.try_get_u8().ok()?;
    let length = body.try_get_u32().ok()?;
    body.limit(length as usize);
    (flag == 0).then_some(body)
}

/// Returns the encoding of a body's first message if [`first_message`] cannot read it; `None` if it can.
pub(crate) fn unknown_encoding<'a>(head: &[u8], encoding: Option<&'a str>) -> Option<&'a str> {
    let is_encoded = head.first().is_some_and(|flag| *flag != 0);
    encoding.filter(|name| is_encoded && !matches!(*name, "identity" | "gzip" | "deflate"))
}

/// Decompresses up to `most` bytes. The input may be truncated anywhere.
fn unpacked(mut packed: impl std::io::Read, most: usize) -> Cow<'static, [u8]> {
    let mut out = vec![0; most];
    let mut filled = 0;
    while filled < most {
        match packed.read(&mut out[filled..]) {
            Ok(0) | Err(_) => break,
            Ok(read) => filled += read,
        }
    }
    out.truncate(filled);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        let mut out = vec![flag];
        out.extend((message.len() as u32).to_be_bytes());
        out.extend(message);
        out
    }

    #[test]
    fn a_message_is_found_plain_and_compressed() {
        let plain = framed(0, b"hello");
        assert_eq!(first_message(&plain, None, 99).unwrap(), &b"hello"[..]);
        assert_eq!(first_message(&plain[..7], None, 99).unwrap(), &b"he"[..]);
        assert_eq!(first_message(&plain[..4], None, 99), None);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&[b'a'; 100_000]).unwrap();
        let packed = framed(1, &gzip.finish().unwrap());
        let bytes = first_message(&packed, Some("gzip"), 4096).unwrap();
        assert_eq!(bytes.len(), 4096);
        assert_eq!(first_message(&packed, Some("snappy"), 4096), None);
    }

    #[test]
    fn only_an_unreadable_message_has_an_unknown_encoding() {
        let (plain, packed) = (framed(0, b"hello"), framed(1, b"hello"));
        assert_eq!(unknown_encoding(&packed, Some("snappy")), Some("snappy"));
        // The encoding header says nothing about a message that is not compressed.
        assert_eq!(unknown_encoding(&plain, Some("snappy")), None);
        for known in [Some("gzip"), Some("deflate"), Some("identity"), None] {
            assert_eq!(unknown_encoding(&packed, known), None, "{known:?}");
        }
        assert_eq!(unknown_encoding(b"", Some("snappy")), None);
    }

    #[test]
    fn a_long_error_message_is_cut_to_what_clients_accept() {
        let response = error(Code::NotFound, &"x".repeat(100_000));
        assert_eq!(status(response.headers()), Some(tonic::Code::NotFound));
        let values = response.headers().values();
        let bytes: usize = values.map(HeaderValue::len).sum();
        assert!(bytes < 7 * 1024, "{bytes}");
    }

    #[test]
    fn a_full_queue_is_resource_exhausted() {
        let response = error(Code::Overloaded, "full");
        assert_eq!(status(response.headers()), Some(tonic::Code::ResourceExhausted));
        assert_eq!(verdict(tonic::Code::NotFound), Verdict::Succeeded);
        assert_eq!(verdict(tonic::Code::Unimplemented), Verdict::Succeeded);
        assert_eq!(verdict(tonic::Code::ResourceExhausted), Verdict::Refused);
        assert_eq!(verdict(tonic::Code::Internal), Verdict::Failed);
    }
}
