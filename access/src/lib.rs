//! Access control of a gateway: API keys, rules, and the decision about one request. The crate has no IO and no clock.
//!
//! A request may do what some rule allows its caller; there are no rules that deny. Rules stand in access files, where
//! they hold for all services, and in a service's annotation, where they hold for that service only.

mod caller;
mod client_certificates;
mod client_id;
mod division;
mod document;
mod issuer;
mod key;
mod keys;
mod limits;
mod operation;
mod pattern;
mod policy;
mod rate;
mod rule;
mod rules;

pub use caller::Caller;
pub use client_certificates::{CertificateName, ClientCertificates, RESERVED_NAMES, is_client_prefix};
pub use client_id::ClientId;
pub use division::part_of_count;
pub use document::{AccessDocument, WrittenKey};
pub use issuer::{IssuerKind, IssuerSettings};
pub use key::{KeyDigest, KeyId, NewKey};
pub use keys::Fingerprint;
pub use keys::{KeyError, Keys};
pub use limits::ClientLimits;
pub use operation::{Operation, Operations};
pub use pattern::ServiceId;
pub use policy::{Policy, PolicyError, Problem};
pub use rate::{Rate, Unit};
pub use rule::{Rule, RuleError};
pub use rules::{Grant, Rules, ServiceRules, Verdict};

/// Longest name of a client, in bytes. ServiceAccounts of Kubernetes have up to 150.
pub const MAX_NAME: usize = 253;

/// Returns true for a name of a client that fits a header, a log line and a metric label: 1 to [`MAX_NAME`] visible
/// ASCII characters, without quotes, commas and the `*` of patterns. A name does not begin with `(`, as the names of
/// requests without a client do in logs and metrics, such as `(anonymous)`.
#[must_use]
pub fn is_client_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b',' | b'*');
    (1..=MAX_NAME).contains(&name.len()) && !name.starts_with('(') && name.bytes().all(is_allowed)
}
