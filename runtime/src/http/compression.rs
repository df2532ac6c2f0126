//! gzip and deflate, both ways. `deflate` is the zlib format, as RFC 9110 says.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};

use crate::error::ServeError;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Deflate,
}

impl Coding {
    /// The coding of a request, from its `Content-Encoding`.
    ///
    /// # Errors
    /// [`ServeError::Unimplemented`] for any other coding.
    pub(crate) fn of_request(header: Option<&str>) -> Result<Self, ServeError> {
        match header.map(str::trim) {
            None | Some("" | "identity") => Ok(Self::Identity),
            Some("gzip") => Ok(Self::Gzip),
            Some("deflate") => Ok(Self::Deflate),
            Some(_) => Err(ServeError::Unimplemented(
                "Unsupported compression type".to_owned(),
            )),
        }
    }

    /// The coding a client prefers, from its `Accept-Encoding`: the highest weight, the first named
    /// where weights are equal; without the header, none.
    pub(crate) fn preferred(header: Option<&str>) -> Self {
        let mut best = (Self::Identity, 0.0);
        for offer in header.unwrap_or_default().split(',') {
            let mut parts = offer.split(';').map(str::trim);
            let coding = match parts.next() {
                Some("gzip") => Self::Gzip,
                Some("deflate") => Self::Deflate,
                Some("identity") => Self::Identity,
                _ => continue,
            };
            let weight = parts
                .find_map(|part| part.strip_prefix("q="))
                .map_or(Some(1.0), |q| q.parse().ok());
            // An unreadable weight is no offer.
            if weight.is_some_and(|weight: f32| weight > best.1) {
                best = (coding, weight.unwrap_or_default());
            }
        }
        best.0
    }

    /// The header's value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }

    /// Unpacks a body, up to `limit` bytes.
    ///
    /// # Errors
    /// [`ServeError::Invalid`] for broken data and for bombs.
    pub(crate) fn unpack(self, body: Bytes, limit: usize) -> Result<Bytes, ServeError> {
        match self {
            Self::Identity => Ok(body),
            Self::Gzip => read_up_to(GzDecoder::new(&body[..]), limit),
            Self::Deflate => read_up_to(ZlibDecoder::new(&body[..]), limit),
        }
    }

    /// Packs a body.
    ///
    /// # Errors
    /// [`ServeError::Model`] never in practice: memory does not refuse writes.
    pub(crate) fn pack(self, body: &[u8]) -> Result<Bytes, ServeError> {
        let failed = |error: std::io::Error| ServeError::Model(format!("compression: {error}"));
        let packed = match self {
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
        packed.map(Bytes::from).map_err(failed)
    }
}

fn read_up_to(decoder: impl Read, limit: usize) -> Result<Bytes, ServeError> {
    let mut unpacked = Vec::new();
    let read = decoder.take(limit as u64 + 1).read_to_end(&mut unpacked);
    if let Err(error) = read {
        return Err(ServeError::Invalid(format!(
            "cannot decompress the request body: {error}"
        )));
    }
    if unpacked.len() > limit {
        return Err(ServeError::Invalid(format!(
            "decompressed request body exceeds the maximum allowed input size of {limit} bytes. \
             Use --http-max-input-size to increase the limit."
        )));
    }
    Ok(unpacked.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_decide_and_order_breaks_ties() {
        for (header, want) in [
            (None, Coding::Identity),
            (Some("gzip"), Coding::Gzip),
            (Some("deflate, gzip"), Coding::Deflate),
            (Some("gzip;q=0, deflate"), Coding::Deflate),
            (Some("gzip;q=0.3, identity;q=0.5"), Coding::Identity),
            (Some("gzip;q=x, br"), Coding::Identity),
        ] {
            assert_eq!(Coding::preferred(header), want, "{header:?}");
        }
    }

    #[test]
    fn what_is_packed_unpacks_and_bombs_do_not() {
        let body = Bytes::from(vec![7; 100_000]);
        for coding in [Coding::Identity, Coding::Gzip, Coding::Deflate] {
            let packed = coding.pack(&body).unwrap();
            assert_eq!(coding.unpack(packed.clone(), 100_000).unwrap(), body);
            if coding != Coding::Identity {
                assert!(coding.unpack(packed.clone(), 99_999).is_err());
                assert!(
                    coding
                        .unpack(packed.slice(..packed.len() / 2), 100_000)
                        .is_err()
                );
            }
        }
    }
}
