//! gzip and deflate, both ways. `deflate` is the zlib format, as RFC 9110 says.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use weir_ops::byte_budget::BudgetPermit;

use crate::error::ServeError;

/// A content coding (RFC 9110).
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
    /// [`ServeError::UnknownCoding`] for any other coding.
    pub(crate) fn of_request(header: Option<&str>) -> Result<Self, ServeError> {
        match header.map(str::trim) {
            None | Some("") => Ok(Self::Identity),
            Some(name) => Self::named(name).ok_or(ServeError::UnknownCoding),
        }
    }

    /// A coding by its name, whose case does not matter.
    fn named(name: &str) -> Option<Self> {
        [Self::Identity, Self::Gzip, Self::Deflate]
            .into_iter()
            .find(|coding| coding.name().eq_ignore_ascii_case(name))
    }

    /// The coding a client prefers, from its `Accept-Encoding`: the highest weight, the first named
    /// where weights are equal; without the header, none.
    pub(crate) fn preferred(header: Option<&str>) -> Self {
        let mut best = (Self::Identity, 0.0);
        for offer in header.unwrap_or_default().split(',') {
            let mut parts = offer.split(';').map(str::trim);
            let Some(coding) = parts.next().and_then(Self::named) else {
                continue;
            };
            let weight = parts
                .find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")))
                .map_or(Some(1.0), |q| q.parse().ok());
            // An unreadable weight is no offer.
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

    /// Decompresses a body, up to `limit` bytes, counting them in `permit` in place of the compressed ones.
    ///
    /// # Errors
    /// [`ServeError::Invalid`] for broken data and for bombs, [`ServeError::BodyBudgetExhausted`] while
    /// others hold too much.
    pub(crate) fn decompress(
        self,
        body: Bytes,
        limit: usize,
        permit: &BudgetPermit,
    ) -> Result<Bytes, ServeError> {
        let decompressed = match self {
            Self::Identity => return Ok(body),
            Self::Gzip => read_up_to(MultiGzDecoder::new(&body[..]), limit, permit)?,
            Self::Deflate => read_up_to(ZlibDecoder::new(&body[..]), limit, permit)?,
        };
        drop(body);
        permit.resize(decompressed.len())?;
        Ok(decompressed)
    }

    /// Compresses a body.
    ///
    /// # Errors
    /// [`ServeError::Model`] never in practice: memory does not refuse writes.
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

/// Bytes decompressed between two checks of the limits: little beside what a body may be, much beside the
/// cost of a check.
const STEP: u64 = 64 * 1024;

fn read_up_to(
    mut decoder: impl Read,
    limit: usize,
    permit: &BudgetPermit,
) -> Result<Bytes, ServeError> {
    let compressed = permit.bytes();
    let mut decompressed = Vec::new();
    loop {
        let step = decoder.by_ref().take(STEP).read_to_end(&mut decompressed);
        let more = step.map_err(|error| {
            ServeError::Invalid(format!("cannot decompress the request body: {error}"))
        })?;
        if more == 0 {
            return Ok(decompressed.into());
        }
        if decompressed.len() > limit {
            return Err(ServeError::Invalid(format!(
                "decompressed request body exceeds the maximum allowed input size of {limit} bytes. \
                 Use --http-max-input-size to increase the limit."
            )));
        }
        permit.resize(compressed + decompressed.capacity())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_ops::byte_budget::ByteBudget;

    #[test]
    fn decompressed_bytes_count_against_the_budget() {
        let compressed = Coding::Gzip.compress(&vec![7; 1_000_000]).unwrap();
        let body_budget = ByteBudget::new(500_000);
        let permit = body_budget.permit();
        let refused = Coding::Gzip.decompress(compressed, 1_000_000, &permit);
        assert_eq!(
            refused,
            Err(ServeError::BodyBudgetExhausted { limit: 500_000 })
        );
        drop(permit);
        assert_eq!(body_budget.in_use(), 0);
    }

    #[test]
    fn weights_decide_and_order_breaks_ties() {
        for (header, want) in [
            (None, Coding::Identity),
            (Some("gzip"), Coding::Gzip),
            (Some("deflate, gzip"), Coding::Deflate),
            (Some("gzip;q=0, deflate"), Coding::Deflate),
            (Some("gzip;q=0.3, identity;q=0.5"), Coding::Identity),
            (Some("gzip;q=x, br"), Coding::Identity),
            (Some("GZIP;Q=0.5, Deflate;q=0.2"), Coding::Gzip),
        ] {
            assert_eq!(Coding::preferred(header), want, "{header:?}");
        }
    }

    #[test]
    fn members_of_a_gzip_body_are_joined() {
        let half = |text: &[u8]| Coding::Gzip.compress(text).unwrap();
        let body = Bytes::from([half(b"{\"a\":"), half(b"1}")].concat());
        let permit = ByteBudget::default().permit();
        let joined = Coding::Gzip.decompress(body, 100, &permit);
        assert_eq!(joined.unwrap(), b"{\"a\":1}"[..]);
    }

    #[test]
    fn what_is_compressed_decompresses_and_bombs_do_not() {
        let body = Bytes::from(vec![7; 100_000]);
        let permit = ByteBudget::default().permit();
        for coding in [Coding::Identity, Coding::Gzip, Coding::Deflate] {
            let compressed = coding.compress(&body).unwrap();
            assert_eq!(
                coding
                    .decompress(compressed.clone(), 100_000, &permit)
                    .unwrap(),
                body
            );
            if coding != Coding::Identity {
                assert!(
                    coding
                        .decompress(compressed.clone(), 99_999, &permit)
                        .is_err()
                );
                assert!(
                    coding
                        .decompress(compressed.slice(..compressed.len() / 2), 100_000, &permit)
                        .is_err()
                );
            }
        }
    }
}
