//! Keys and rules of all access files.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::caller::Caller;
use crate::client_certificates::{self, ClientCertificates, RESERVED_NAMES};
use crate::document::{AccessDocument, WrittenKey};
use crate::issuer::{IssuerKind, IssuerSettings};
use crate::key::{KeyDigest, KeyId};
use crate::keys::Keys;
use crate::limits::{ClientLimits, MAX_LIMITS};
use crate::operation::Operations;
use crate::pattern::ServiceId;
use crate::rule::{RuleError, below};
use crate::rules::Rules;

/// Keys and rules of all access files.
#[derive(Debug, Default)]
pub struct Policy {
    /// API keys of all files.
    pub keys: Keys,
    /// Rules of all files.
    pub rules: Rules,
    /// All issuers of tokens, whose settings are not validated yet.
    pub issuers: Vec<IssuerSettings>,
    /// Client certificates of all files, whose authorities are not read yet.
    pub client_certificates: Vec<ClientCertificates>,
    /// Limits of all clients, in the order of the files.
    pub limits: Vec<ClientLimits>,
}

/// An error in an access file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// Index of the file, from 0.
    pub document: usize,
    /// Path of the field, such as `keys[0].sha256`.
    pub field: String,
    /// The error, as a clause.
    pub problem: Problem,
}

/// Kind of an error in an access file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An id that no key can have.
    #[error("expected 16 hexadecimal digits, as `weir key create` writes")]
    Id,
    /// An id that another key has.
    #[error("another key has this id")]
    DuplicateId,
    /// A digest that does not have the form of SHA-256.
    #[error("expected 64 hexadecimal digits, the SHA-256 of the key")]
    Digest,
    /// A name that no client can have.
    #[error(
        "expected 1 to 253 visible ASCII characters without quotes, commas, `\\` and `*`, not `(` at the beginning"
    )]
    Client,
    /// A key with the name of a ServiceAccount.
    #[error("names that begin with `system:` are those of ServiceAccounts, which have tokens")]
    ReservedClient,
    /// A prefix that names of clients cannot begin with.
    #[error("expected at most 64 visible ASCII characters without quotes, commas, `\\` and `*`, and not `system:`")]
    Prefix,
    /// A prefix by which two sources could give the same client's name.
    #[error("names of another issuer or entry could begin the same: no prefix may begin with another one")]
    SharedPrefix,
    /// More entries of client certificates than the gateway compares with one certificate.
    #[error("more than {} entries", client_certificates::MAX_ENTRIES)]
    TooManyEntries,
    /// A time that is not written as in RFC 3339.
    #[error("expected a time such as 2027-01-31T00:00:00Z")]
    Time,
    /// Limits that name no client, or name one by an invalid pattern.
    #[error("limits name clients by 1 to 253 characters, with `*` only at the end")]
    LimitClients,
    /// Limits of single services that set a weight.
    #[error("a weight is for all services: set it in an entry without `services`")]
    ServiceWeight,
    /// A burst without the rate to which it belongs.
    #[error("a burst belongs to a rate: set `requestsPerMinute` beside it")]
    BurstWithoutRate,
    /// More limits than each request can be compared with.
    #[error("more than {} limits", crate::limits::MAX_LIMITS)]
    TooManyLimits,
    /// An error in a rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
}

impl Policy {
    /// Combines the content of all access files.
    ///
    /// # Errors
    /// Every error of every file.
    pub fn of(documents: &[AccessDocument]) -> Result<Self, Vec<PolicyError>> {
        let (mut keys, mut names, mut errors) = (Keys::default(), Names::default(), Vec::new());
        let (mut rules, mut issuers, mut certificates, mut limits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (document, content) in documents.iter().enumerate() {
            let mut report = |field: String, problem| errors.push(PolicyError { document, field, problem });
            for (at, written) in content.keys.iter().enumerate() {
                if let Err((field, problem)) = add(&mut keys, &mut names, written) {
                    report(format!("keys[{at}].{field}"), problem);
                }
            }
            for (at, rule) in content.rules.iter().enumerate() {
                if let Err((field, error)) = rule.check() {
                    report(below(&format!("rules[{at}]"), &field), error.into());
                }
            }
            for (at, one) in content.limits.iter().enumerate() {
                if limits.len() + at >= MAX_LIMITS {
                    report(format!("limits[{at}]"), Problem::TooManyLimits);
                } else if let Err((field, problem)) = check_limits(one) {
                    report(format!("limits[{at}].{field}"), problem);
                }
            }
            for (at, entry) in content.client_certificates.iter().enumerate() {
                if certificates.len() + at >= client_certificates::MAX_ENTRIES {
                    report(format!("clientCertificates[{at}]"), Problem::TooManyEntries);
                } else if !entry.has_valid_prefix() {
                    report(format!("clientCertificates[{at}].clientPrefix"), Problem::Prefix);
                }
            }
            certificates.extend(content.client_certificates.iter().cloned());
            limits.extend(content.limits.iter().cloned());
            rules.extend(content.rules.iter().cloned());
            issuers.extend(content.issuers.iter().cloned());
        }
        for (document, at) in entries_with_shared_names(documents) {
            let field = format!("clientCertificates[{at}].clientPrefix");
            errors.push(PolicyError { document, field, problem: Problem::SharedPrefix });
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self { keys, rules: Rules::new(rules), issuers, client_certificates: certificates, limits })
    }

    /// Returns the limits of a client for all services together; `None` for a client that no such limits name.
    #[must_use]
    pub fn limits_of(&self, client: &str) -> Option<&ClientLimits> {
        self.limits.iter().find(|limits| !limits.is_per_service() && limits.names(client))
    }

    /// Returns the limits of a client that count requests to this service separately; `None` if there are none.
    #[must_use]
    pub fn limits_at(&self, client: &str, service: ServiceId<'_>) -> Option<&ClientLimits> {
        self.limits.iter().find(|limits| limits.covers(service) && limits.names(client))
    }

    /// Iterates over the clients that keys and rules name; a name may occur more than once.
    pub fn client_names(&self) -> impl Iterator<Item = &str> {
        self.keys.client_names().chain(self.rules.client_names())
    }
}

/// Names that keys have in common, each stored once.
type Names = HashMap<String, Arc<str>>;

fn add(keys: &mut Keys, names: &mut Names, written: &WrittenKey) -> Result<(), (&'static str, Problem)> {
    let id: KeyId = written.id.parse().map_err(|()| ("id", Problem::Id))?;
    let digest: KeyDigest = written.sha256.parse().map_err(|()| ("sha256", Problem::Digest))?;
    if !crate::is_client_name(&written.client) {
        return Err(("client", Problem::Client));
    }
    if written.client.starts_with(RESERVED_NAMES) {
        return Err(("client", Problem::ReservedClient));
    }
    let expires = written.expires.as_deref().map(seconds).transpose().map_err(|problem| ("expires", problem))?;
    let mut name = |text: &String| Arc::clone(names.entry(text.clone()).or_insert_with(|| text.as_str().into()));
    let scopes = match &written.scopes[..] {
        [] => Operations::ALL,
        some => some.iter().copied().collect(),
    };
    let caller = Caller::named(name(&written.client), written.roles.iter().map(&mut name).collect(), scopes);
    if keys.add(id, digest, expires, caller) { Ok(()) } else { Err(("id", Problem::DuplicateId)) }
}

/// Checks the limits of one entry. The error has the path of the field within the entry.
fn check_limits(limits: &ClientLimits) -> Result<(), (String, Problem)> {
    if !limits.has_valid_clients() {
        return Err(("clients".to_owned(), Problem::LimitClients));
    }
    if let Some(at) = limits.invalid_service() {
        return Err((format!("services[{at}]"), RuleError::Service.into()));
    }
    if limits.burst.is_some() && limits.requests_per_minute.is_none() {
        return Err(("burst".to_owned(), Problem::BurstWithoutRate));
    }
    match limits.weight {
        Some(_) if limits.is_per_service() => Err(("weight".to_owned(), Problem::ServiceWeight)),
        Some(_) | None => Ok(()),
    }
}

/// Returns a time in seconds since 1970; a time before that counts as 0.
fn seconds(text: &str) -> Result<u64, Problem> {
    let time: Timestamp = text.parse().map_err(|_| Problem::Time)?;
    Ok(u64::try_from(time.as_second()).unwrap_or(0))
}

/// Returns document and index of each entry whose clients could have the same names as those of an earlier entry or of
/// an OpenID issuer. That is possible if one of the two prefixes begins with the other one. The names of Kubernetes are
/// reserved, so they need no prefix.
fn entries_with_shared_names(documents: &[AccessDocument]) -> Vec<(usize, usize)> {
    let issuers = documents.iter().flat_map(|document| &document.issuers);
    let issuers = issuers.filter(|issuer| issuer.kind == IssuerKind::OpenId);
    let mut prefixes: Vec<&str> = issuers.map(|issuer| &*issuer.client_prefix).collect();
    let mut shared = Vec::new();
    for (document, content) in documents.iter().enumerate() {
        for (at, entry) in content.client_certificates.iter().enumerate() {
            let own = &*entry.client_prefix;
            if prefixes.iter().any(|other| other.starts_with(own) || own.starts_with(other)) {
                shared.push((document, at));
            }
            prefixes.push(own);
        }
    }
    shared
}
