//! Verifies bearer tokens: JWTs (RFC 7519) of OpenID issuers and of Kubernetes.
//!
//! ```text
//!   token ──► cache of verified tokens ──► identity
//!               │ miss                        ▲
//!               ▼                             │
//!             parse ──► issuer ──► key ──► signature ──► claims
//!                         ▲
//!   settings ──► fetch of key sets, on time and for unknown keys
//! ```
//!
//! Verification is a pure function. [`Issuers`] owns the key sets, which it fetches only from URLs of its settings, and
//! never from one that a token names.

mod algorithm;
mod cache;
mod claim_path;
mod clock;
mod error;
mod fetch;
mod fingerprints;
mod identity;
mod issuers;
mod key;
mod key_set;
mod schedule;
mod settings;
mod source;
#[cfg(test)]
mod testing;
mod token;
mod verify;

pub use error::{SettingsError, TokenError};
pub use fingerprints::Fingerprints;
pub use identity::TokenIdentity;
pub use issuers::{Issuers, KeySetState};
