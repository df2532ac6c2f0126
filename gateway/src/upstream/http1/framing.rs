//! Decodes a response's body up to its end (RFC 9112, 6 and 7), without IO.

use bytes::{Buf, Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::wire::headers;

/// Framing of a body, with its remaining length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Remaining bytes according to `content-length`.
    Length(u64),
    /// Chunked transfer coding, with the position in the coding.
    Chunked(ChunkState),
    /// The body ends with the connection.
    UntilClose,
    /// The body has ended.
    Ended,
}

/// Position of the next byte in the chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkState {
    /// In a chunk's size line.
    Size,
    /// In a chunk's data, with this many bytes left.
    Data(u64),
    /// In the line break after a chunk's data.
    LineEnd,
    /// In the trailers after the last chunk.
    Trailers,
}

/// Result of decoding the bytes that have arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    Data(Bytes),
    Trailers(HeaderMap),
    /// The body has ended.
    End,
    /// More bytes are needed.
    Incomplete,
}

/// Maximum length in bytes of a chunk's size line: sixteen digits, and extensions, which no common server sends.
const MAX_SIZE_LINE: usize = 1024;

/// Maximum size in bytes of all trailers.
const MAX_TRAILERS: usize = 16 << 10;
/// Maximum number of trailer lines: enough for gRPC, which sends several dozen short ones.
const MAX_TRAILER_COUNT: usize = 64;

impl Framing {
    /// Returns true if the body has ended.
    pub(super) fn is_ended(self) -> bool {
        match self {
            Self::Length(0) | Self::Ended => true,
            Self::Length(_) | Self::Chunked(_) | Self::UntilClose => false,
        }
    }

    /// Returns the announced bytes that are still to come, to size the buffer.
    pub(super) fn expected(self) -> u64 {
        match self {
            Self::Length(bytes) | Self::Chunked(ChunkState::Data(bytes)) => bytes,
            Self::Chunked(_) | Self::UntilClose | Self::Ended => 0,
        }
    }

    /// Takes the next data or trailers out of `input`.
    ///
    /// # Errors
    /// A clause that describes how the bytes violate the protocol.
    pub(super) fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, String> {
        match self {
            Self::Ended | Self::Length(0) => Ok(Decoded::End),
            Self::Length(left) => Ok(take_data(input, left)),
            Self::UntilClose if input.is_empty() => Ok(Decoded::Incomplete),
            Self::UntilClose => Ok(Decoded::Data(input.split().freeze())),
            Self::Chunked(chunk) => {
                let decoded = chunk.decode(input)?;
                if matches!(decoded, Decoded::End | Decoded::Trailers(_)) {
                    *self = Self::Ended;
                }
                Ok(decoded)
            }
        }
    }

    /// Records that the connection has ended.
    ///
    /// # Errors
    /// A clause, if the body was not complete when the connection ended.
    pub(super) fn close(&mut self) -> Result<(), String> {
        match self {
            Self::UntilClose | Self::Ended | Self::Length(0) => {
                *self = Self::Ended;
                Ok(())
            }
            Self::Length(left) => Err(format!("it closed the connection {left} bytes before the end")),
            Self::Chunked(_) => Err("it closed the connection before the last chunk".to_owned()),
        }
    }
}

impl ChunkState {
    fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, String> {
        loop {
            match self {
                Self::Size => match chunk_size(input)? {
                    None => return Ok(Decoded::Incomplete),
                    Some(0) => *self = Self::Trailers,
                    Some(size) => *self = Self::Data(size),
                },
                Self::Data(left) => {
                    let piece = take_data(input, left);
                    if *left == 0 {
                        *self = Self::LineEnd;
                    }
                    return Ok(piece);
                }
                Self::LineEnd => match input.get(..2) {
                    None => return Ok(Decoded::Incomplete),
                    Some(b"\r\n") => {
                        input.advance(2);
                        *self = Self::Size;
                    }
                    Some(_) => return Err("a chunk is longer than its size".to_owned()),
                },
                Self::Trailers => return take_trailers(input),
            }
        }
    }
}

fn take_data(input: &mut BytesMut, left: &mut u64) -> Decoded {
    if input.is_empty() {
        return Decoded::Incomplete;
    }
    let take = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
    *left -= take as u64;
    Decoded::Data(input.split_to(take).freeze())
}

fn chunk_size(input: &mut BytesMut) -> Result<Option<u64>, String> {
    // The parser reads a line without digits as size zero, which would end the body.
    if input.first().is_some_and(|first| !first.is_ascii_hexdigit()) {
        return Err("a chunk has no size".to_owned());
    }
    match httparse::parse_chunk_size(input) {
        Ok(httparse::Status::Complete((line, size))) => {
            input.advance(line);
            Ok(Some(size))
        }
        Ok(httparse::Status::Partial) if input.len() < MAX_SIZE_LINE => Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => Err("a chunk's size is invalid".to_owned()),
    }
}

fn take_trailers(input: &mut BytesMut) -> Result<Decoded, String> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_TRAILER_COUNT];
    let (length, lines) = match httparse::parse_headers(input, &mut lines) {
        Ok(httparse::Status::Complete(parsed)) => parsed,
        Ok(httparse::Status::Partial) if input.len() < MAX_TRAILERS => {
            return Ok(Decoded::Incomplete);
        }
        Ok(httparse::Status::Partial) => {
            return Err(format!("its trailers exceed {} KiB", MAX_TRAILERS >> 10));
        }
        Err(error) => return Err(format!("its trailers are malformed: {error}")),
    };
    let mut map = HeaderMap::with_capacity(lines.len());
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(line.value)) {
            map.append(name, value);
        }
    }
    input.advance(length);
    // Connection headers have no meaning in trailers, and HTTP/2 forbids them.
    headers::strip(&mut map);
    map.remove(CONTENT_LENGTH);
    Ok(if map.is_empty() { Decoded::End } else { Decoded::Trailers(map) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes a body that arrives in pieces; returns its data, its trailers and the number of bytes left over.
    fn read(mut framing: Framing, bytes: &[u8], cut: usize) -> Result<(Vec<u8>, HeaderMap, usize), String> {
        let (mut input, mut data, mut last) = (BytesMut::new(), Vec::new(), HeaderMap::new());
        let mut pieces = bytes.chunks(cut.max(1));
        loop {
            match framing.decode(&mut input)? {
                Decoded::Data(piece) => data.extend_from_slice(&piece),
                Decoded::Trailers(trailers) => last = trailers,
                Decoded::End => return Ok((data, last, input.len())),
                Decoded::Incomplete => match pieces.next() {
                    Some(piece) => input.extend_from_slice(piece),
                    None => framing.close()?,
                },
            }
        }
    }

    proptest! {
        #[test]
        fn bodies_are_decoded_unchanged(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300), 0..9),
            cut in 1_usize..400,
        ) {
            let plain = chunks.concat();
            let length = Framing::Length(plain.len() as u64);
            prop_assert_eq!(read(length, &plain, cut).unwrap().0, plain.clone());
            prop_assert_eq!(read(Framing::UntilClose, &plain, cut).unwrap().0, plain.clone());
            let mut coded = Vec::new();
            for chunk in &chunks {
                coded.extend(format!("{:X};x=1\r\n", chunk.len()).bytes());
                coded.extend(chunk);
                coded.extend(b"\r\n");
            }
            coded.extend(b"0\r\nx-a: 1\r\n\r\n");
            let chunked = Framing::Chunked(ChunkState::Size);
            let (data, trailers, left) = read(chunked, &coded, cut).unwrap();
            prop_assert_eq!((data, trailers["x-a"].as_bytes(), left), (plain, &b"1"[..], 0));
            for end in 0..coded.len() {
                prop_assert!(read(chunked, &coded[..end], cut).is_err());
            }
        }

        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 1_usize..50) {
            let _ = read(Framing::Chunked(ChunkState::Size), &bytes, cut);
        }
    }

    #[test]
    fn bytes_after_a_body_stay_in_the_buffer() {
        assert_eq!(read(Framing::Length(2), b"abcd", 9).unwrap().2, 2);
        let chunked = Framing::Chunked(ChunkState::Size);
        assert_eq!(read(chunked, b"1\r\na\r\n0\r\n\r\nHTTP", 99).unwrap().2, 4);
    }

    #[test]
    fn trailers_do_not_frame_a_body() {
        let coded = b"0\r\ncontent-length: 3\r\nconnection: x-b\r\nx-a: 1\r\nx-b: 2\r\n\r\n";
        let (_, trailers, _) = read(Framing::Chunked(ChunkState::Size), coded, 9).unwrap();
        let names: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-a"]);
    }

    #[test]
    fn invalid_framing_is_an_error() {
        let chunked = Framing::Chunked(ChunkState::Size);
        for bad in [
            "x\r\n",
            "\r\n\r\n",
            "1\r\na\r\n\r\n\r\n",
            ";a=1\r\n\r\n",
            " \r\n\r\n",
            "1\r\nab\r\n",
            "11111111111111111\r\n",
            "0\r\n: x\r\n\r\n",
        ] {
            assert!(read(chunked, bad.as_bytes(), 99).is_err(), "{bad:?}");
        }
        assert!(read(Framing::Length(5), b"abc", 99).is_err());
        assert!(read(chunked, &[b' '; 5000], 99).is_err());
    }
}
