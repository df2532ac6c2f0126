//! Ports that API servers call: webhooks and aggregated APIs.
//!
//! ```text
//!   API server ─ TLS ─► TlsPort ─► the owner's routes
//!                         ▲
//!   Secret ─► ServingPair ┘     Rotation, in the process that keeps them ─► Secret, caBundle of what calls the port
//! ```
//!
//! Certificates are a port's own, and all processes that serve it share them by a Secret. Each follows the one before while
//! API servers trust both, so that no call fails. Connections, their places and waits are bounded.

mod callers;
mod certificate;
mod connection;
mod pairs;
mod port;
mod resolver;
mod rotation;
mod trust;

pub use callers::Callers;
pub use certificate::ServingPair;
pub use port::TlsPort;
pub use resolver::Resolver;
pub use rotation::{CertificateOptions, Rotation};
pub use trust::CallsPort;
