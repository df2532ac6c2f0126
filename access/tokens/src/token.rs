//! Reads a JWT in compact form (RFC 7519, RFC 7515): three parts in base64url, separated by dots. The result is not
//! verified yet.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::algorithm::Algorithm;
use crate::error::TokenError;

/// Maximum size of a token in bytes. Tokens of common issuers have one to four KiB, with hundreds of groups.
pub(crate) const MAX_TOKEN_BYTES: usize = 8192;

/// A token that was read and not verified.
#[derive(Debug)]
pub(crate) struct UnverifiedToken<'a> {
    /// Bytes that the signature covers: header and claims with the dot between them.
    pub(crate) signed: &'a [u8],
    pub(crate) signature: Vec<u8>,
    pub(crate) algorithm: Algorithm,
    /// Name of the key, `kid`.
    pub(crate) key_id: Option<String>,
    pub(crate) claims: Map<String, Value>,
}

/// Fields of the header that matter. URLs and keys in it (`jku`, `x5u`, `jwk`, `x5c`) are ignored: a token must not
/// choose the key that verifies it.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

impl<'a> UnverifiedToken<'a> {
    /// Reads a token.
    ///
    /// # Errors
    /// [`TokenError`] if the token is too long, is not a signed JWT, or has a header that cannot be accepted.
    pub(crate) fn parse(token: &'a str) -> Result<Self, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let header: Header = json(header)?;
        let algorithm = header.algorithm()?;
        let claims = json(claims)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Malformed)?;
        Ok(Self { signed: signed.as_bytes(), signature, algorithm, key_id: header.kid, claims })
    }

    /// Returns the claim `iss`, which is not verified.
    ///
    /// # Errors
    /// [`TokenError::Claim`] if the claim is absent or no text.
    pub(crate) fn issuer(&self) -> Result<&str, TokenError> {
        self.claims.get("iss").and_then(Value::as_str).ok_or_else(|| TokenError::Claim("iss".to_owned()))
    }
}

impl Header {
    fn algorithm(&self) -> Result<Algorithm, TokenError> {
        let algorithm = Algorithm::named(&self.alg).ok_or(TokenError::Algorithm)?;
        if self.crit.is_some() || !self.has_accepted_type() {
            return Err(TokenError::Header);
        }
        Ok(algorithm)
    }

    /// Returns true if the token has no type, is a JWT, or is an access token (RFC 9068). Tokens of other types, such
    /// as logout tokens, have the same issuer and keys, and prove something else (RFC 8725, 3.11).
    fn has_accepted_type(&self) -> bool {
        let Some(name) = self.typ.as_deref().map(str::to_ascii_lowercase) else {
            return true;
        };
        matches!(name.strip_prefix("application/").unwrap_or(&name), "jwt" | "at+jwt")
    }
}

/// Reads a part in base64url with a JSON object. The size of the token bounds it, and `serde_json` its depth.
fn json<T: serde::de::DeserializeOwned>(part: &str) -> Result<T, TokenError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| TokenError::Malformed)
}
