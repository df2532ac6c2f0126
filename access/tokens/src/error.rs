//! Errors of tokens, of key sets and of settings. None of them contains a part of a token.

/// Reason why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token has more than 8 KiB.
    #[error("the token is too long")]
    TooLong,
    /// The token is not a signed JWT in compact form.
    #[error("the token is not a signed JWT")]
    Malformed,
    /// The token names no algorithm that Weir accepts: `none`, an HMAC, or an unknown one.
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    /// The token has the header `crit`, and Weir supports none of its extensions; or the token is of another type.
    #[error("the token's header asks for something that is not supported")]
    Header,
    /// No issuer with the token's claim `iss` is configured.
    #[error("the token's issuer is not trusted")]
    UnknownIssuer,
    /// The issuer's key set has no key with the key name in the token or, if the token names none, no key that verifies
    /// it.
    #[error("the token's key is not among its issuer's keys")]
    UnknownKey,
    /// The issuer's key set was never fetched, or is too old.
    #[error("the keys of the token's issuer are not available")]
    KeysUnavailable,
    /// The signature does not belong to the token and the key.
    #[error("the token's signature is wrong")]
    Signature,
    /// The token is for another audience.
    #[error("the token is for another audience")]
    Audience,
    /// The token's time is over.
    #[error("the token has expired")]
    Expired,
    /// The token's time has not begun, by `nbf` or `iat`.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// A claim is absent, or has a value that cannot be used.
    #[error("the token's claim '{0}' is absent or invalid")]
    Claim(String),
    /// The issuer gives a name that is reserved for ServiceAccounts of Kubernetes.
    #[error("the token's client has a name that is reserved for Kubernetes")]
    ReservedName,
}

impl TokenError {
    /// Returns true if a newer key set of the issuer may change the result.
    pub(crate) fn depends_on_keys(&self) -> bool {
        matches!(self, Self::UnknownKey | Self::KeysUnavailable)
    }
}

/// Reason why a key set cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeySetError {
    /// The document is not a JSON object with a list of keys.
    #[error("the document is not a JSON Web Key Set")]
    Malformed,
    /// The set has more than the given number of keys.
    #[error("the set has more than {0} keys")]
    TooMany(usize),
    /// No key of the set can verify a signature.
    #[error("the set has no key that verifies signatures with an accepted algorithm")]
    Empty,
}

/// Error in the settings of issuers. It names the issuer and the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A field of an issuer is wrong.
    #[error("issuer {issuer}: {field} {reason}")]
    Field {
        /// Place of the issuer in the list, counted from zero.
        at: usize,
        /// The issuer's URL, or its place in the list, counted from one.
        issuer: String,
        /// Name of the field in the settings.
        field: &'static str,
        /// Clause that describes the error.
        reason: String,
    },
    /// There are more issuers than the given number.
    #[error("at most {0} issuers can be configured")]
    TooMany(usize),
    /// Two issuers have the same value where each needs its own.
    #[error("two issuers have the same {field} '{value}'")]
    Same {
        /// Place of the later issuer in the list, counted from zero.
        at: usize,
        /// Name of the field in the settings.
        field: &'static str,
        /// Value that both issuers have.
        value: String,
    },
    /// The prefix of an issuer's names begins with that of another one, so that both could give the same name.
    #[error(
        "two issuers could give the same name: no clientPrefix may begin with another one, as with '{own}' and '{other}'"
    )]
    SharedNames {
        /// Place of the later issuer in the list, counted from zero.
        at: usize,
        /// Prefix of the later issuer.
        own: String,
        /// Prefix of the other issuer.
        other: String,
    },
}

impl SettingsError {
    /// Returns the place of the issuer in the list, counted from zero, and the name of its field; an empty name for an
    /// error of the whole issuer.
    #[must_use]
    pub fn place(&self) -> (usize, &'static str) {
        match self {
            Self::Field { at, field, .. } | Self::Same { at, field, .. } => (*at, field),
            Self::SharedNames { at, .. } => (*at, "clientPrefix"),
            Self::TooMany(most) => (*most, ""),
        }
    }
}
