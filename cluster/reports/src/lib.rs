//! Reports of gateways in other processes: each gateway serves a watch on its admin port, and [`RemoteReports`]
//! subscribes to all of them.
//!
//! ```text
//!   gateway ──Report──► service (admin port) ══gRPC weir.v1.Reports/Watch══► subscriber ─┐
//!   gateway ──Report──► service (admin port) ══════════════════════════════► subscriber ─┴─► LatestReports
//! ```
//!
//! `message` is pure: it encodes, decodes and checks reports.

mod error;
mod message;
mod remote;
mod service;
mod subscriber;

pub use error::RemoteError;
pub use remote::RemoteReports;
pub use service::{PATH, ReportsService, service};
pub use subscriber::TokenSource;

/// Messages, client and server, generated from `proto/`.
#[allow(missing_docs, unreachable_pub, clippy::pedantic, clippy::too_many_lines, reason = "generated")]
mod proto {
    tonic::include_proto!("weir.v1");
}
