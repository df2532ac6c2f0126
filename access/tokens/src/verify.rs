//! Verification of a token: a decision without clock and IO.

use std::sync::Arc;

use crate::error::TokenError;
use crate::identity::{IssuerConfig, TokenIdentity, identity};
use crate::key::Key;
use crate::key_set::{Candidates, KeySet};
use crate::token::UnverifiedToken;

/// Verifies a token of one issuer, and returns also the key that verified it. `now` is in seconds since 1970.
///
/// # Errors
/// [`TokenError`] with the first reason against the token. The claims are examined only if the signature is right.
pub(crate) fn verify<'a>(
    token: &UnverifiedToken<'_>,
    keys: &'a KeySet,
    config: &IssuerConfig,
    now: u64,
) -> Result<(TokenIdentity, &'a Arc<Key>), TokenError> {
    let verifies = |key: &&Arc<Key>| key.verifies(token.algorithm, token.signed, &token.signature);
    let key = match keys.candidates(token.key_id.as_deref(), token.algorithm) {
        Candidates::Named(keys) => keys.into_iter().find(verifies).ok_or(TokenError::Signature)?,
        // The key may be new, and only in a newer set.
        Candidates::Unnamed(keys) => keys.into_iter().find(verifies).ok_or(TokenError::UnknownKey)?,
    };
    Ok((identity(&token.claims, config, now)?, key))
}

#[cfg(test)]
mod tests;
