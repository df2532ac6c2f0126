//! Certificates that Weir makes and keeps in Secrets: for ports that API servers call, which are webhooks and
//! aggregated APIs, and for gateways.
//!
//! ```text
//!   API server ─ TLS ─► TlsPort ─► the owner's routes
//!                         ▲
//!   Secret ─► ServingPair ┘     Rotation, in the process that keeps them ─► Secret, caBundle
//! ```
//!
//! The caBundle is in the objects by which API servers find the port: a ValidatingWebhookConfiguration or an
//! APIService. Each port has its own certificates, shared through a Secret by all processes that serve the port. A new
//! certificate is used only when API servers trust both the old and the new one, so that no call fails. The number and
//! duration of connections are bounded.
//!
//! Gateways read certificate and authorities in the Secret itself. A new certificate is used once they have had time to
//! read its authority.

mod authority;
mod certificate;
mod clock;
mod connection;
mod pairs;
mod port;
mod resolver;
mod rotation;
mod trust;

pub use authority::{Authorities, Authority, Holder, keep_replica_client, kept_authorities};
pub use certificate::{Purpose, ServingPair};
pub use connection::Callers;
pub use port::TlsPort;
pub use resolver::Resolver;
pub use rotation::{ApiServers, CertificateOptions, Rotation, SecretReaders, Verifiers};
pub use trust::PortReference;
