//! The key or token in a request's head.

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use weir_access::{KeyError, KeyId};
use weir_tokens::TokenError;

use crate::certificates::CertificateError;

/// Header that may carry an API key instead of `Authorization`; many gateways in front of models accept it.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Scheme of `Authorization` for keys and tokens (RFC 6750).
const BEARER: &[u8] = b"bearer ";

static CREDENTIALS: [HeaderName; 2] = [AUTHORIZATION, API_KEY];

/// Reason why the key or token of a request is refused. It is logged; the client reads only
/// that its key is invalid, or that it has sent several.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuthError {
    /// The API key is invalid.
    #[error("{0}")]
    Key(KeyError),
    /// The token is refused.
    #[error("{0}")]
    Token(TokenError),
    /// The certificate of the connection names no client.
    #[error("{0}")]
    Certificate(CertificateError),
    /// A token or certificate names a client that has keys.
    #[error("its client's name is that of a client with keys")]
    NameOfKeys,
    /// The request has several keys. A proxy in front of the gateway could choose another one than the gateway.
    #[error("it has several keys")]
    Several,
}

/// Removes the headers that carry keys and tokens, and returns the text of the request's only key or token; `None` if
/// it has none. A key is sent as `Authorization: Bearer KEY`, as OpenAI's clients send it, or as `x-api-key: KEY`.
/// Other schemes of `Authorization` are ignored.
///
/// # Errors
/// An [`AuthError`] for several keys, and for one that is not text.
pub(super) fn take(headers: &mut HeaderMap) -> Result<Option<Credential>, AuthError> {
    let (mut found, mut has_header) = (None, [false; CREDENTIALS.len()]);
    for (name, value) in headers.iter() {
        let Some(number) = CREDENTIALS.iter().position(|one| one == name) else {
            continue;
        };
        has_header[number] = true;
        let scheme = if *name == API_KEY { Some(0) } else { bearer(value) };
        let Some(skipped) = scheme else {
            continue;
        };
        found = Some(match found {
            None => Ok(Credential { value: value.clone(), skipped }),
            Some(_) => Err(AuthError::Several),
        });
    }
    for (name, _) in CREDENTIALS.iter().zip(has_header).filter(|(_, has_header)| *has_header) {
        headers.remove(name);
    }
    found.transpose()
}

/// Returns true for text that begins like an API key. A token never does, because it begins with a JSON object in
/// base64url.
pub(super) fn is_api_key(credential: &str) -> bool {
    credential.starts_with(KeyId::PREFIX)
}

/// The text of a key or token, as a part of its header's value.
pub(super) struct Credential {
    value: HeaderValue,
    /// Number of bytes before the text: the scheme of `Authorization`.
    skipped: usize,
}

impl Credential {
    /// Returns the key or token.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] for bytes that are not UTF-8.
    pub(super) fn text(&self) -> Result<&str, AuthError> {
        let bytes = self.value.as_bytes()[self.skipped..].trim_ascii();
        std::str::from_utf8(bytes).map_err(|_| AuthError::Key(KeyError::Malformed))
    }
}

/// Returns the length of the scheme `Bearer`, whose case does not matter (RFC 9110, 11.1); `None` for another scheme.
fn bearer(value: &HeaderValue) -> Option<usize> {
    let scheme = value.as_bytes().get(..BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then_some(BEARER.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    /// Takes the credential out of these headers, and checks that no credential is left in them.
    fn text(lines: &[(&'static str, &str)]) -> Result<Option<String>, AuthError> {
        let mut headers = headers(lines);
        let found = take(&mut headers);
        assert!(CREDENTIALS.iter().all(|name| !headers.contains_key(name)), "{lines:?}");
        found?.map(|credential| credential.text().map(str::to_owned)).transpose()
    }

    #[test]
    fn one_key_is_accepted_in_either_header() {
        let named = Ok(Some("key".to_owned()));
        for line in [
            ("authorization", "Bearer key"),
            ("authorization", "bearer  key"),
            ("x-api-key", "key"),
            ("x-api-key", " key"),
        ] {
            assert_eq!(text(&[line]), named, "{line:?}");
        }
        assert_eq!(text(&[("authorization", "Basic YTpi"), ("x-api-key", "key")]), named);
        assert_eq!(text(&[]), Ok(None));
        for other in ["Basic YTpi", "Bearer", "Bear", ""] {
            assert_eq!(text(&[("authorization", other)]), Ok(None), "{other}");
        }
        assert_eq!(text(&[("x-api-key", "")]), Ok(Some(String::new())));
    }

    #[test]
    fn several_keys_and_other_bytes_are_refused() {
        for lines in [
            [("x-api-key", "a"), ("x-api-key", "a")],
            [("authorization", "Bearer a"), ("x-api-key", "a")],
            [("authorization", "Bearer a"), ("authorization", "Bearer b")],
        ] {
            assert_eq!(text(&lines), Err(AuthError::Several));
        }
        let mut headers = HeaderMap::new();
        headers.insert(API_KEY, HeaderValue::from_bytes(&[0xff]).unwrap());
        let taken = take(&mut headers).unwrap().unwrap();
        assert_eq!(taken.text(), Err(AuthError::Key(KeyError::Malformed)));
    }

    #[test]
    fn no_credential_stays() {
        let mut headers = headers(&[("authorization", "Basic x"), ("x-api-key", "a"), ("x-api-key", "b"), ("te", "x")]);
        assert!(take(&mut headers).is_err());
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["te"]);
    }
}
