//! A response, independent of its protocol.

/// The last response read from a connection.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    /// Number of bytes of JSON before the blobs; `None` over gRPC and for responses that are all JSON.
    pub(crate) header_length: Option<usize>,
    /// Body of the response; over gRPC with the five-byte prefix of its message.
    pub(crate) body: &'a [u8],
}
