//! The key or token in a request's head, and the caller that it names.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use weir_access::{Caller, KeyError, Policy};
use weir_serve::header_names;
use weir_tokens::TokenError;

use crate::certificates::CertificateError;

/// Header of a key beside `Authorization`, as many gateways of models have it.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Scheme of `Authorization` for keys and tokens (RFC 6750).
const BEARER: &[u8] = b"bearer ";

static CREDENTIALS: [HeaderName; 2] = [AUTHORIZATION, API_KEY];

/// Reason why the key or token of a request is refused. It is logged; the client reads only that its key is invalid.
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
    /// Two keys, of which proxies and the gateway could choose different ones.
    #[error("it has several keys")]
    Several,
}

/// Returns the caller of a request with these headers, at `now` in seconds since 1970. A key comes as
/// `Authorization: Bearer KEY`, as OpenAI's clients send it, or as `x-api-key: KEY`. Other schemes of `Authorization` are
/// ignored.
///
/// # Errors
/// An [`AuthError`] for a key that is not valid, or for several keys.
pub(super) fn caller(policy: &Policy, headers: &HeaderMap, now: u64) -> Result<Arc<Caller>, AuthError> {
    match credential(headers)? {
        None => Ok(Arc::new(Caller::anonymous())),
        Some(text) => policy.keys.caller(text, now).cloned().map_err(AuthError::Key),
    }
}

/// Returns the request's only key or token if it has the form of a JWT: three parts with dots between them, which no API
/// key has.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    let text = credential(headers).ok()??;
    (text.bytes().filter(|byte| *byte == b'.').count() == 2).then_some(text)
}

/// Removes the headers in which keys and tokens come.
pub(super) fn remove_credentials(headers: &mut HeaderMap) {
    if header_names::has_any(headers, &CREDENTIALS) {
        for name in &CREDENTIALS {
            headers.remove(name);
        }
    }
}

/// Returns the text of the request's only key or token; `None` if it has none.
fn credential(headers: &HeaderMap) -> Result<Option<&str>, AuthError> {
    if !header_names::has_any(headers, &CREDENTIALS) {
        return Ok(None);
    }
    let bearers = headers.get_all(AUTHORIZATION).iter().filter_map(bearer);
    let mut found = bearers.chain(headers.get_all(API_KEY).iter().map(HeaderValue::as_bytes));
    match (found.next(), found.next()) {
        (Some(only), None) => match std::str::from_utf8(only) {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(AuthError::Key(KeyError::Malformed)),
        },
        (Some(_), Some(_)) => Err(AuthError::Several),
        (None, _) => Ok(None),
    }
}

/// Returns the token of the scheme `Bearer`, whose case does not matter (RFC 9110, 11.1); `None` for another scheme.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then_some(token)
}

#[cfg(test)]
mod tests {
    use weir_access::{AccessDocument, NewKey, WrittenKey};

    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn one_key_is_accepted_in_either_header() {
        let key = NewKey::from_random([3; NewKey::RANDOM]);
        let written = WrittenKey {
            id: key.id.to_string(),
            client: "a".to_owned(),
            sha256: key.digest.to_string(),
            expires: None,
            scopes: Vec::new(),
            roles: Vec::new(),
        };
        let policy = Policy::of(&[AccessDocument { keys: vec![written], ..AccessDocument::default() }]).unwrap();
        let client = |lines: &[(&'static str, &str)]| {
            caller(&policy, &headers(lines), 0).map(|caller| caller.client().map(|name| name.to_string()))
        };
        let key = &*key.text;
        let (bearer, lower) = (format!("Bearer {key}"), format!("bearer  {key}"));
        let named = Ok(Some("a".to_owned()));
        for line in [("authorization", &*bearer), ("authorization", &*lower), ("x-api-key", key)] {
            assert_eq!(client(&[line]), named, "{line:?}");
        }
        assert_eq!(client(&[("authorization", "Basic YTpi"), ("x-api-key", key)]), named);
        assert_eq!(client(&[]), Ok(None));
        assert_eq!(client(&[("authorization", "Basic YTpi")]), Ok(None));
        for line in [("authorization", "Bearer EMPTY"), ("x-api-key", "")] {
            assert_eq!(client(&[line]), Err(AuthError::Key(KeyError::Malformed)), "{line:?}");
        }
        for lines in [[("x-api-key", key), ("x-api-key", key)], [("authorization", &*bearer), ("x-api-key", key)]] {
            assert_eq!(client(&lines), Err(AuthError::Several));
        }
    }

    #[test]
    fn no_credential_stays() {
        let mut headers = headers(&[("authorization", "Basic x"), ("x-api-key", "a"), ("x-api-key", "b"), ("te", "x")]);
        remove_credentials(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["te"]);
    }
}
