//! Compresses and decompresses with gzip and deflate. `deflate` is the zlib format, as in RFC 9110.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::bufread::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use weir_serve::byte_budget::BudgetPermit;

use crate::error::ServeError;

/// A content coding (RFC 9110).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Deflate,
}

impl Coding {
    /// Returns the coding of a request from all of its `Content-Encoding` headers.
    ///
    /// # Errors
    /// [`ServeError::UnknownCoding`] for any other coding and for more than one, because bytes that are still encoded
    /// must not be taken for a tensor.
    pub(crate) fn of_request(headers: &HeaderMap) -> Result<Self, ServeError> {
        let mut coding = Self::Identity;
        for header in headers.get_all(CONTENT_ENCODING) {
            let names = header.to_str().map_err(|_| ServeError::UnknownCoding)?;
            for name in names.split(',').map(str::trim).filter(|n| !n.is_empty()) {
                let named = Self::named(name).ok_or(ServeError::UnknownCoding)?;
                if coding != Self::Identity && named != Self::Identity {
                    return Err(ServeError::UnknownCoding);
                }
                if named != Self::Identity {
                    coding = named;
                }
            }
        }
        Ok(coding)
    }

    /// Returns the coding with this name, in any case. gzip also has the old name `x-gzip` (RFC 9110, 8.4.1.3).
    fn named(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("x-gzip") {
            return Some(Self::Gzip);
        }
        [Self::Identity, Self::Gzip, Self::Deflate].into_iter().find(|coding| coding.name().eq_ignore_ascii_case(name))
    }

    /// Returns the coding that a client prefers, from all of its `Accept-Encoding` headers: the one with the highest
    /// weight, and the first of equal weights. Without the header, `Identity`.
    pub(crate) fn preferred(headers: &HeaderMap) -> Self {
        let offers =
            headers.get_all(ACCEPT_ENCODING).iter().flat_map(|list| list.to_str().unwrap_or_default().split(','));
        let mut best = (Self::Identity, 0.0);
        for offer in offers {
            let mut parts = offer.split(';').map(str::trim);
            let Some(coding) = parts.next().and_then(Self::named) else {
                continue;
            };
            let weight = parts
                .find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")))
                .map_or(Some(1.0), |q| q.parse().ok());
            // An unreadable weight is ignored with its coding.
            if weight.is_some_and(|weight: f32| weight > best.1) {
                best = (coding, weight.unwrap_or_default());
            }
        }
        best.0
    }

    /// The coding's name in headers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }

    /// Decompresses a body to at most `limit` bytes. Meanwhile `permit` counts the compressed and the decompressed
    /// bytes, afterwards only the decompressed ones.
    ///
    /// # Errors
    /// [`ServeError::Invalid`] for broken data and for a body that decompresses to more than `limit`,
    /// [`ServeError::BodyBudgetExhausted`] while other requests hold too much of the budget.
    pub(crate) fn decompress(self, body: Bytes, limit: usize, permit: &BudgetPermit) -> Result<Bytes, ServeError> {
        let decompressed = match self {
            Self::Identity => return Ok(body),
            Self::Gzip => gunzip(&body, limit, permit)?,
            Self::Deflate => inflate(&body, limit, permit)?,
        };
        drop(body);
        permit.resize(decompressed.len())?;
        Ok(decompressed)
    }

    /// Compresses a response body.
    ///
    /// # Errors
    /// [`ServeError::Model`], but never in practice: writing to memory does not fail.
    pub(crate) fn compress(self, body: &[u8]) -> Result<Bytes, ServeError> {
        let failed = |error: std::io::Error| ServeError::Model(format!("compression: {error}"));
        let compressed = match self {
            Self::Identity => Ok(body.to_vec()),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(body).and_then(|()| encoder.finish())
            }
            Self::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(body).and_then(|()| encoder.finish())
            }
        };
        compressed.map(Bytes::from).map_err(failed)
    }
}

/// Bytes to decompress between two checks of the limits: small compared with the limit on a body, and large enough that
/// the checks cost little.
const STEP: usize = 64 * 1024;

/// Memory of a decoder in bytes: deflate's window of 32 KiB, and its tables.
const DECODER: usize = 48 * 1024;

/// Largest number of bytes that one byte of deflate data can decompress to.
const MAX_RATIO: usize = 1032;

/// Limit on the members of a gzip stream. Compressors that write several put 64 KiB or more into each. Starting a
/// member takes as long as decompressing several KiB, so millions of empty members would keep a thread busy for
/// minutes.
const MAX_MEMBERS: usize = 4096;

/// Decompresses a gzip stream, which may have several members.
fn gunzip(mut body: &[u8], limit: usize, permit: &BudgetPermit) -> Result<Bytes, ServeError> {
    let mut decompressed = Decompressed::new(body, limit, permit)?;
    if honest_size(body).is_some_and(|size| size > limit) {
        return Err(decompressed.too_large());
    }
    for _ in 0..MAX_MEMBERS {
        let mut decoder = GzDecoder::new(body);
        decompressed.read(&mut decoder)?;
        body = decoder.into_inner();
        if body.is_empty() {
            return Ok(decompressed.finish());
        }
    }
    Err(ServeError::Invalid(format!(
        "cannot decompress the request body: the gzip stream has more than {MAX_MEMBERS} members"
    )))
}

/// Returns the last four bytes of a gzip stream as a number: the decompressed size of its last member, modulo 4 GiB.
/// The whole stream decompresses to at least as many bytes, so a stream that states too large a size is refused before
/// it is decompressed. `None` if a body of this length cannot decompress to so many bytes; the last four bytes are then
/// not a size, because the body is not gzip or has other bytes after the stream.
fn honest_size(body: &[u8]) -> Option<usize> {
    let size = u32::from_le_bytes(*body.last_chunk()?) as usize;
    (size <= body.len().saturating_mul(MAX_RATIO)).then_some(size)
}

/// Decompresses a zlib stream that must be the whole body; bytes after it would be dropped silently.
fn inflate(body: &[u8], limit: usize, permit: &BudgetPermit) -> Result<Bytes, ServeError> {
    let mut decoder = ZlibDecoder::new(body);
    let mut decompressed = Decompressed::new(body, limit, permit)?;
    decompressed.read(&mut decoder)?;
    match decoder.into_inner() {
        [] => Ok(decompressed.finish()),
        rest => Err(ServeError::Invalid(format!(
            "cannot decompress the request body: {} bytes follow the deflate stream",
            rest.len()
        ))),
    }
}

/// The bytes decompressed so far, with their limits.
struct Decompressed<'a> {
    /// The capacity holds everything that the body can become, so the buffer never moves. Pages that were never written
    /// take no memory, but a move would need twice the written size.
    bytes: Vec<u8>,
    limit: usize,
    permit: &'a BudgetPermit,
    /// Bytes of the compressed body, which stays in memory until it is decompressed.
    compressed: usize,
}

impl<'a> Decompressed<'a> {
    fn new(body: &[u8], limit: usize, permit: &'a BudgetPermit) -> Result<Self, ServeError> {
        let most = body.len().saturating_mul(MAX_RATIO).min(limit.saturating_add(1));
        let compressed = permit.bytes();
        permit.resize(compressed + DECODER + most.min(STEP))?;
        Ok(Self { bytes: Vec::with_capacity(most), limit, compressed, permit })
    }

    /// Appends the output of a decoder; each step is counted in the permit before it is decompressed.
    fn read(&mut self, decoder: &mut impl Read) -> Result<(), ServeError> {
        loop {
            let room = STEP.min(self.bytes.capacity() - self.bytes.len());
            let charged = self.compressed + DECODER + self.bytes.len() + room;
            self.permit.resize(charged)?;
            let step = decoder.by_ref().take(room as u64).read_to_end(&mut self.bytes);
            let more =
                step.map_err(|error| ServeError::Invalid(format!("cannot decompress the request body: {error}")))?;
            if self.bytes.len() > self.limit {
                return Err(self.too_large());
            }
            if more == 0 {
                return Ok(());
            }
        }
    }

    fn too_large(&self) -> ServeError {
        ServeError::Invalid(format!(
            "decompressed request body exceeds the maximum allowed input size of {} bytes. \
             Use --http-max-input-size to increase the limit.",
            self.limit
        ))
    }

    fn finish(mut self) -> Bytes {
        self.bytes.shrink_to_fit();
        self.bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use weir_serve::byte_budget::ByteBudget;

    use super::*;

    /// A reader that checks on each read that the permit covers the buffer.
    struct Checked<'a> {
        rest: usize,
        permit: &'a BudgetPermit,
        read: usize,
    }

    impl Read for Checked<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = buffer.len().min(self.rest);
            buffer[..count].fill(7);
            self.rest -= count;
            self.read += count;
            assert!(self.permit.bytes() >= self.read + DECODER);
            Ok(count)
        }
    }

    #[test]
    fn the_memory_of_a_decoder_is_counted_in_advance() {
        let budget = ByteBudget::default();
        let permit = budget.permit();
        permit.resize(1000).unwrap();
        let body = [0; 1000];
        let mut decompressed = Decompressed::new(&body, 500_000, &permit).unwrap();
        let mut decoder = Checked { rest: 500_000, permit: &permit, read: 0 };
        let before = decompressed.bytes.as_ptr();
        decompressed.read(&mut decoder).unwrap();
        assert_eq!(decompressed.bytes.len(), 500_000);
        // The buffer did not move.
        assert_eq!(decompressed.bytes.as_ptr(), before);
    }

    #[test]
    fn a_stream_that_declares_too_large_a_size_is_not_decompressed() {
        let bomb = Coding::Gzip.compress(&vec![0; 1_000_000]).unwrap();
        let budget = ByteBudget::new(150_000);
        let permit = budget.permit();
        let refused = Coding::Gzip.decompress(bomb, 999_999, &permit);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("maximum allowed input size of 999999"), "{refused}");
    }

    #[test]
    fn decompressed_bytes_count_against_the_budget() {
        let compressed = Coding::Gzip.compress(&vec![7; 1_000_000]).unwrap();
        let body_budget = ByteBudget::new(500_000);
        let permit = body_budget.permit();
        let refused = Coding::Gzip.decompress(compressed, 1_000_000, &permit);
        assert_eq!(refused, Err(ServeError::BodyBudgetExhausted { limit: 500_000 }));
        drop(permit);
        assert_eq!(body_budget.in_use(), 0);
    }

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn weights_decide_and_order_breaks_ties() {
        for (lines, want) in [
            (&[][..], Coding::Identity),
            (&["gzip"], Coding::Gzip),
            (&["deflate, gzip"], Coding::Deflate),
            (&["gzip;q=0, deflate"], Coding::Deflate),
            (&["gzip;q=0.3, identity;q=0.5"], Coding::Identity),
            (&["gzip;q=x, br"], Coding::Identity),
            (&["GZIP;Q=0.5, Deflate;q=0.2"], Coding::Gzip),
            (&["br", "gzip"], Coding::Gzip),
            (&["gzip;q=0.1", "deflate;q=0.2"], Coding::Deflate),
        ] {
            let headers = headers(ACCEPT_ENCODING, lines);
            assert_eq!(Coding::preferred(&headers), want, "{lines:?}");
        }
    }

    #[test]
    fn every_coding_of_a_request_counts() {
        let unknown = Err(ServeError::UnknownCoding);
        for (lines, want) in [
            (&[][..], Ok(Coding::Identity)),
            (&["", " "], Ok(Coding::Identity)),
            (&["identity, identity"], Ok(Coding::Identity)),
            (&["x-gzip"], Ok(Coding::Gzip)),
            (&["gzip, identity"], Ok(Coding::Gzip)),
            (&["identity", "Deflate"], Ok(Coding::Deflate)),
            (&["identity", "br"], unknown.clone()),
            (&["gzip", "gzip"], unknown.clone()),
            (&["deflate, gzip"], unknown.clone()),
            (&["gz\u{ef}p"], unknown),
        ] {
            let headers = headers(CONTENT_ENCODING, lines);
            assert_eq!(Coding::of_request(&headers), want, "{lines:?}");
        }
    }

    #[test]
    fn nothing_may_follow_a_compressed_body() {
        let permit = ByteBudget::default().permit();
        for coding in [Coding::Gzip, Coding::Deflate] {
            let compressed = coding.compress(b"[1]").unwrap();
            let followed = Bytes::from([&compressed[..], b"[2]"].concat());
            assert!(coding.decompress(followed, 100, &permit).is_err(), "{coding:?}");
        }
    }

    #[test]
    fn members_of_a_gzip_body_are_joined() {
        let half = |text: &[u8]| Coding::Gzip.compress(text).unwrap();
        let body = Bytes::from([half(b"{\"a\":"), half(b"1}")].concat());
        let permit = ByteBudget::default().permit();
        let joined = Coding::Gzip.decompress(body, 100, &permit);
        assert_eq!(joined.unwrap(), b"{\"a\":1}"[..]);
        let many = Bytes::from(half(b"").repeat(MAX_MEMBERS + 1));
        let refused = Coding::Gzip.decompress(many, 100, &permit).unwrap_err();
        assert!(refused.to_string().contains("members"), "{refused}");
    }

    #[test]
    fn compressed_bodies_are_decompressed_and_bombs_are_refused() {
        let body = Bytes::from(vec![7; 100_000]);
        let permit = ByteBudget::default().permit();
        for coding in [Coding::Identity, Coding::Gzip, Coding::Deflate] {
            let compressed = coding.compress(&body).unwrap();
            assert_eq!(coding.decompress(compressed.clone(), 100_000, &permit).unwrap(), body);
            if coding != Coding::Identity {
                assert!(coding.decompress(compressed.clone(), 99_999, &permit).is_err());
                assert!(coding.decompress(compressed.slice(..compressed.len() / 2), 100_000, &permit).is_err());
            }
        }
    }
}
