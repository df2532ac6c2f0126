//! Reads and writes the single message of each direction of `ModelInfer`, without a stream in between.
//!
//! tonic's codec is made for streams: it copies each message into its own buffer and wraps every layer in another
//! future. Here a message that arrived whole is decoded in place.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use http_body::{Body as HttpBody, Frame};
use hyper::body::Incoming;
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use weir_protocol::grpc::proto::ModelInferRequest;
use weir_protocol::grpc::{Footprint, TooManyParts};
use weir_serve::Upload;
use weir_serve::byte_budget::{BudgetPermit, ByteBudget};

use crate::incoming::charged_bytes;
use crate::incoming::request_body::{self, BodyLimits, RESERVED};

/// Bytes before each message: a flag for compression and a length of four bytes.
pub(super) const PREFIX: usize = 5;

/// Reads the whole message of a call, and drops any further bytes, as gRPC requires. The permit counts the bytes.
///
/// # Errors
/// A status in tonic's words: invalid argument for a missing, incomplete or compressed message; out of range for one
/// larger than the limit. Also the statuses of a client that is too slow and of an exhausted byte budget.
pub(super) async fn read(mut body: Incoming, limits: BodyLimits<'_>, permit: &BudgetPermit) -> Result<Bytes, Status> {
    let mut upload = limits.upload();
    let Some(first) = next(&mut body, &mut upload, &limits).await? else {
        return Err(Status::invalid_argument("Missing request message."));
    };
    let mut charged = first.len();
    charge(permit, charged)?;
    let mut bytes = Gathered::One(first);
    let length = loop {
        match length(bytes.as_slice(), limits.size)? {
            Some(length) if bytes.as_slice().len() >= PREFIX + length => break length,
            Some(length) => bytes.expect(PREFIX + length),
            None => {}
        }
        let Some(more) = next(&mut body, &mut upload, &limits).await? else {
            return Err(Status::invalid_argument("Unexpected EOF decoding stream."));
        };
        charged += more.len();
        charge(permit, charged)?;
        bytes.push(&more);
    };
    while !body.is_end_stream() && next(&mut body, &mut upload, &limits).await?.is_some() {}
    Ok(bytes.into_bytes().slice(PREFIX..PREFIX + length))
}

/// Decodes a message; the permit then counts its decoded size too.
///
/// # Errors
/// Invalid argument if the bytes are not protobuf, or if the message has more parts than allowed; resource exhausted if
/// too little of the byte budget is left.
pub(super) fn decode(message: Bytes, permit: &BudgetPermit) -> Result<ModelInferRequest, Status> {
    let mut footprint = Footprint::of_infer(message.len());
    footprint.feed(&message).map_err(too_many_parts)?;
    charge(permit, permit.bytes() + footprint.decoded_bytes())?;
    ModelInferRequest::decode(message).map_err(|error| Status::invalid_argument(error.to_string()))
}

/// Returns the status of a message with more parts than allowed.
pub(super) fn too_many_parts(error: TooManyParts) -> Status {
    Status::invalid_argument(error.to_string())
}

async fn next(body: &mut Incoming, upload: &mut Upload, limits: &BodyLimits<'_>) -> Result<Option<Bytes>, Status> {
    let next = request_body::next_chunk(body, upload, limits).await;
    next.map_err(|error| super::status(&error))
}

fn charge(permit: &BudgetPermit, bytes: usize) -> Result<(), Status> {
    permit.resize(bytes).map_err(|exhausted| super::status(&exhausted.into()))
}

/// Returns the length in a message's prefix; `None` until the prefix has arrived.
fn length(bytes: &[u8], limit: usize) -> Result<Option<usize>, Status> {
    let Some(mut prefix) = bytes.get(..PREFIX) else {
        return Ok(None);
    };
    match prefix.get_u8() {
        0 => {}
        1 => {
            return Err(Status::invalid_argument(
                "protocol error: received message with compressed-flag but no grpc-encoding was specified",
            ));
        }
        flag => {
            return Err(Status::invalid_argument(format!(
                "protocol error: received message with invalid compression flag: {flag} (valid flags are 0 and 1), while sending request"
            )));
        }
    }
    let length = prefix.get_u32() as usize;
    if length > limit {
        return Err(too_large(length, limit));
    }
    Ok(Some(length))
}

/// Returns the status of a message over the limit, in tonic's words.
pub(super) fn too_large(length: usize, limit: usize) -> Status {
    Status::out_of_range(format!(
        "Error, decoded message length too large: found {length} bytes, the limit is: {limit} bytes"
    ))
}

/// The pieces of a body; a single piece is not copied.
enum Gathered {
    One(Bytes),
    Many(BytesMut),
}

impl Gathered {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::One(bytes) => bytes,
            Self::Many(bytes) => bytes,
        }
    }

    /// Reserves room for a message of `size` bytes, at most [`RESERVED`].
    fn expect(&mut self, size: usize) {
        if let Self::One(first) = self {
            let mut bytes = BytesMut::with_capacity(size.min(RESERVED).max(first.len()));
            bytes.extend_from_slice(first);
            *self = Self::Many(bytes);
        }
    }

    fn push(&mut self, more: &[u8]) {
        self.expect(self.as_slice().len() + more.len());
        if let Self::Many(bytes) = self {
            bytes.extend_from_slice(more);
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::One(bytes) => bytes,
            Self::Many(bytes) => bytes.freeze(),
        }
    }
}

/// The body of a gRPC response.
pub(super) enum ReplyBody {
    /// One message, then trailers.
    Message { data: Option<Bytes>, trailers: Option<HeaderMap> },
    /// The response of a call that tonic answers; its bytes count until they are sent.
    Routed { body: Body, budget: ByteBudget },
}

/// Returns a successful response with one message, which counts in the permit of its request until it is sent.
///
/// # Errors
/// Out of range for a message larger than the limit, in tonic's words; resource exhausted if too little of the budget
/// is left.
pub(super) fn write(
    message: &impl Message,
    mut trailers: HeaderMap,
    limit: usize,
    permit: BudgetPermit,
) -> Result<Response<ReplyBody>, Status> {
    let length = message.encoded_len();
    if length > limit {
        return Err(Status::out_of_range(format!(
            "Error, encoded message length too large: found {length} bytes, the limit is: {limit} bytes"
        )));
    }
    charged_bytes::count(&permit, PREFIX + length).map_err(|error| super::status(&error))?;
    let mut data = BytesMut::with_capacity(PREFIX + length);
    data.put_u8(0);
    data.put_u32(length as u32);
    message.encode(&mut data).map_err(|error| Status::internal(error.to_string()))?;
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    let mut response = Response::new(ReplyBody::Message {
        data: Some(charged_bytes::charged(data.freeze(), permit)),
        trailers: Some(trailers),
    });
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
    Ok(response)
}

impl Default for ReplyBody {
    /// Returns an empty body, for responses that consist of headers only.
    fn default() -> Self {
        Self::Message { data: None, trailers: None }
    }
}

impl HttpBody for ReplyBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.get_mut() {
            Self::Message { data, trailers } => {
                let data = data.take().map(Frame::data);
                Poll::Ready(data.or_else(|| trailers.take().map(Frame::trailers)).map(Ok))
            }
            Self::Routed { body, budget } => {
                let polled = Pin::new(body).poll_frame(context);
                polled.map(|frame| frame.map(|frame| counted(frame?, budget)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Message { data, trailers } => data.is_none() && trailers.is_none(),
            Self::Routed { body, .. } => body.is_end_stream(),
        }
    }
}

/// Returns a frame whose data counts until it is sent.
fn counted(frame: Frame<Bytes>, budget: &ByteBudget) -> Result<Frame<Bytes>, Status> {
    match frame.into_data() {
        Ok(data) => {
            let data = charged_bytes::charge(data, budget);
            data.map(Frame::data).map_err(|error| super::status(&error))
        }
        Err(frame) => Ok(frame),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn permit() -> BudgetPermit {
        ByteBudget::default().permit()
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
        bytes.extend_from_slice(message);
        bytes
    }

    proptest! {
        #[test]
        fn a_message_is_the_same_however_it_is_split(
            message in prop::collection::vec(any::<u8>(), 0..200),
            cuts in prop::collection::vec(1..50_usize, 0..20),
        ) {
            let bytes = framed(&message);
            let (mut gathered, mut rest) = (Gathered::One(Bytes::new()), &bytes[..]);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                gathered.push(piece);
                rest = after;
                let known = length(gathered.as_slice(), 200).unwrap();
                let there = gathered.as_slice().len();
                prop_assert_eq!(known, (there >= PREFIX).then_some(message.len()));
            }
            prop_assert_eq!(&gathered.into_bytes()[PREFIX..], &message[..]);
        }
    }

    #[test]
    fn unreadable_messages_are_reported_in_tonics_words() {
        let refused = |bytes: &[u8]| length(bytes, 10).unwrap_err();
        for flag in [1, 7] {
            let code = refused(&[flag, 0, 0, 0, 0]).code();
            assert_eq!(code, tonic::Code::InvalidArgument);
        }
        let large = refused(&[0, 0, 0, 0, 11]);
        assert_eq!(large.code(), tonic::Code::OutOfRange);
        assert_eq!(large.message(), "Error, decoded message length too large: found 11 bytes, the limit is: 10 bytes");
        assert_eq!(length(&[0, 0, 0, 0], 10).unwrap(), None);
    }

    #[test]
    fn a_response_is_one_frame_and_its_trailers() {
        let response = write(&42_u32, HeaderMap::new(), 100, permit()).unwrap();
        let ReplyBody::Message { data, trailers } = response.into_body() else {
            panic!("is a message");
        };
        assert_eq!(&data.unwrap()[..], [0, 0, 0, 0, 2, 8, 42]);
        assert_eq!(trailers.unwrap()["grpc-status"], "0");
        let Err(large) = write(&42_u32, HeaderMap::new(), 1, permit()) else {
            panic!("is too large");
        };
        assert_eq!(large.code(), tonic::Code::OutOfRange);
    }
}
