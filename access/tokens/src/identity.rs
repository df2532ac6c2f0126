//! From the claims of a verified token to the client: audience, times, name and roles.

use std::sync::Arc;

use serde_json::{Map, Value};
use weir_access::{Caller, IssuerKind, Operations, RESERVED_NAMES, is_client_name};

use crate::claim_path::ClaimPath;
use crate::error::TokenError;

/// Tolerance for clocks that differ, in seconds.
const LEEWAY_SECONDS: u64 = 60;

/// Maximum length of a role in bytes, prefix included.
const MAX_ROLE_BYTES: usize = 256;

/// Maximum number of roles of a client. The size of tokens allows more.
const MAX_ROLES: usize = 512;

/// Last second of the year 9999. Greater times are milliseconds by mistake.
const LAST_SECOND: f64 = 253_402_300_799.0;

/// Prefix of the roles that a ServiceAccount has from its namespace, which tokens of other issuers cannot have.
const RESERVED_ROLE: &str = "namespace:";

/// The client that a token proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenIdentity {
    /// The client by its name, which is the issuer's prefix and the configured claim, and its roles, each with the
    /// issuer's prefix. Requests with the same token share it.
    pub caller: Arc<Caller>,
    /// Time at which the token expires, in seconds since 1970. It is accepted for a minute longer.
    pub expires: u64,
}

impl TokenIdentity {
    /// Returns true if the token is no longer accepted at `now`, in seconds since 1970.
    pub fn is_expired(&self, now: u64) -> bool {
        now >= self.expires.saturating_add(LEEWAY_SECONDS)
    }
}

/// Rules for the tokens of one issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IssuerConfig {
    /// Value that the claim `iss` has, byte for byte.
    pub(crate) issuer: String,
    /// Accepted audiences; the token must have one of them.
    pub(crate) audiences: Vec<String>,
    /// Kind of the issuer.
    pub(crate) kind: IssuerKind,
    /// Claim with the client's name.
    pub(crate) client: ClaimPath,
    /// Text before the client's name, so that issuers cannot give each other's names.
    pub(crate) client_prefix: String,
    /// Claims with the client's roles: texts or lists of texts.
    pub(crate) roles: Vec<ClaimPath>,
    /// Text before each role.
    pub(crate) roles_prefix: String,
}

/// Returns the client of a token whose signature is verified. `now` is in seconds since 1970.
///
/// # Errors
/// [`TokenError`] if the token is of another issuer, for another audience, not valid at `now`, or has no usable name.
pub(crate) fn identity(
    claims: &Map<String, Value>,
    config: &IssuerConfig,
    now: u64,
) -> Result<TokenIdentity, TokenError> {
    if claims.get("iss").and_then(Value::as_str) != Some(&config.issuer) {
        return Err(TokenError::UnknownIssuer);
    }
    check_audience(claims, &config.audiences)?;
    let expires = check_times(claims, now)?;
    let (client, roles) = match config.kind {
        IssuerKind::OpenId => (client(claims, config)?, roles(claims, config)?),
        IssuerKind::Kubernetes => service_account(claims)?,
    };
    Ok(TokenIdentity { caller: Arc::new(Caller::named(client, roles, Operations::ALL)), expires })
}

fn check_audience(claims: &Map<String, Value>, accepted: &[String]) -> Result<(), TokenError> {
    let is_accepted = |value: &Value| value.as_str().is_some_and(|name| accepted.iter().any(|one| one == name));
    let is_for_us = match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(is_accepted),
        Some(one) => is_accepted(one),
        None => false,
    };
    if is_for_us { Ok(()) } else { Err(TokenError::Audience) }
}

/// Returns the time at which the token expires.
fn check_times(claims: &Map<String, Value>, now: u64) -> Result<u64, TokenError> {
    let expires = seconds(claims, "exp")?.ok_or_else(|| TokenError::Claim("exp".to_owned()))?;
    if now >= expires.saturating_add(LEEWAY_SECONDS) {
        return Err(TokenError::Expired);
    }
    // A token that was issued in the future comes from a clock or a person that cannot be trusted.
    for claim in ["nbf", "iat"] {
        if seconds(claims, claim)?.is_some_and(|at| at > now.saturating_add(LEEWAY_SECONDS)) {
            return Err(TokenError::NotYetValid);
        }
    }
    Ok(expires)
}

/// Returns a time of the claims in whole seconds since 1970; `None` if the claim is absent.
fn seconds(claims: &Map<String, Value>, claim: &str) -> Result<Option<u64>, TokenError> {
    let Some(value) = claims.get(claim) else {
        return Ok(None);
    };
    let number = value.as_f64().filter(|number| (0.0..=LAST_SECOND).contains(number));
    number.map(|number| Some(number as u64)).ok_or_else(|| TokenError::Claim(claim.to_owned()))
}

fn client(claims: &Map<String, Value>, config: &IssuerConfig) -> Result<Arc<str>, TokenError> {
    let name = config.client.find(claims).and_then(Value::as_str).filter(|name| !name.is_empty());
    let invalid = || TokenError::Claim(config.client.as_str().to_owned());
    let name = format!("{}{}", config.client_prefix, name.ok_or_else(invalid)?);
    if !is_client_name(&name) {
        return Err(invalid());
    }
    if name.starts_with(RESERVED_NAMES) {
        return Err(TokenError::ReservedName);
    }
    Ok(name.into())
}

/// Returns the roles of all configured claims. Claims that are absent give none, and roles with a reserved prefix are
/// left out.
fn roles(claims: &Map<String, Value>, config: &IssuerConfig) -> Result<Vec<Arc<str>>, TokenError> {
    let mut roles: Vec<Arc<str>> = Vec::new();
    for path in &config.roles {
        let invalid = || TokenError::Claim(path.as_str().to_owned());
        for role in texts(path, claims).ok_or_else(invalid)? {
            let role = format!("{}{role}", config.roles_prefix);
            let is_reserved = role.starts_with(RESERVED_ROLE) || role.starts_with(RESERVED_NAMES);
            if is_plain(&role) && !is_reserved && !roles.iter().any(|other| **other == *role) {
                roles.push(role.into());
            }
        }
        if roles.len() > MAX_ROLES {
            return Err(invalid());
        }
    }
    Ok(roles)
}

/// Returns the texts of a claim, none if it is absent; `None` if it is neither a text nor a list.
fn texts<'a>(path: &ClaimPath, claims: &'a Map<String, Value>) -> Option<Vec<&'a str>> {
    match path.find(claims) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::String(text)) if path.is_scope() => Some(text.split(' ').filter(|one| !one.is_empty()).collect()),
        Some(Value::String(text)) => Some(vec![text]),
        Some(Value::Array(all)) => Some(all.iter().filter_map(Value::as_str).collect()),
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => None,
    }
}

/// Returns name and role of a Kubernetes ServiceAccount.
fn service_account(claims: &Map<String, Value>) -> Result<(Arc<str>, Vec<Arc<str>>), TokenError> {
    let invalid = || TokenError::Claim("sub".to_owned());
    let name = claims.get("sub").and_then(Value::as_str).filter(|name| is_client_name(name)).ok_or_else(invalid)?;
    let parts: Vec<&str> = name.split(':').collect();
    match parts[..] {
        ["system", "serviceaccount", namespace, account] if !namespace.is_empty() && !account.is_empty() => {
            Ok((name.into(), vec![format!("{RESERVED_ROLE}{namespace}").into()]))
        }
        _ => Err(invalid()),
    }
}

/// Returns true for a role that rules can name: it is short, and has no control characters and no spaces at its ends.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_ROLE_BYTES && name.trim() == name && !name.chars().any(char::is_control)
}
