//! A response, as both protocols return it.

/// The response last read from a connection.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    /// Bytes of JSON before the blobs; `None` over gRPC and for responses that are all JSON.
    pub(crate) header_length: Option<usize>,
    /// Body; over gRPC with the five-byte prefix of its message.
    pub(crate) body: &'a [u8],
}
